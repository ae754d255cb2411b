//! Writes that look at the old value take one round trip, whatever it is: absent, raw, a number, with an expiry, a set or a hash.

use keyfold_core::drive::{Context, Conversations, Outside};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::layout::Layout;
use keyfold_testkit::{Server, Wire, found};

const LAYOUT: &str = "[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { count = 4 }\n\
    [[namespace]]\nkeys = 's:{id:int}'\ntype = 'set'\nbucket = { count = 4 }\nvalue_limit = 128\n\
    [[namespace]]\nkeys = 'h:{id:int}'\ntype = 'hash'\nbucket = { count = 4 }\nvalue_limit = 128\n";

/// What a key holds before each command: what follows SET, nothing for no key.
const BEFORE: [&str; 5] = ["", "text", "41", "text EX 100", "41 EX 100"];

/// Each of these is carried out on all of them, errors included, but for those that only a number has a sum of.
const COMMANDS: [&str; 20] = [
    "SET n:1 new NX",
    "SET n:1 new XX GET",
    "SET n:1 new KEEPTTL",
    "SET n:1 new NX EX 100",
    "SETNX n:1 new",
    "GETSET n:1 new",
    "GETDEL n:1",
    "GETEX n:1 EX 50",
    "GETEX n:1 PERSIST",
    "EXPIRE n:1 50",
    "EXPIRE n:1 50 NX",
    "PEXPIREAT n:1 2500000000000 GT",
    "PERSIST n:1",
    "APPEND n:1 x",
    "SETRANGE n:1 6 x",
    "SETBIT n:1 7 1",
    "BITFIELD n:1 SET u8 0 97 INCRBY i53 8 -5 GET u4 1",
    "GETSET n:1 1",
    "TTL n:1",
    "EXISTS n:1",
];

const SUMS: [&str; 4] = ["INCR n:1", "DECRBY n:1 7", "INCRBY n:1 9007199254740000", "INCRBYFLOAT n:1 1.5"];

/// How sets and hashes come to be, and what takes one round trip on each.
const SETS: [&[&str]; 3] = [&[], &["SADD s:1 a b"], &["SADD s:1 a b", "EXPIRE s:1 100"]];
const HASHES: [&[&str]; 6] = [
    &[],
    &["HSET h:1 a 1 b x"],
    &["HSET h:1 a 1 b x", "EXPIRE h:1 100"],
    &["HSET h:1 a 1 b x", "HEXPIRE h:1 100 FIELDS 1 a"],
    &["HSET h:1 a 1 b x", "HEXPIRE h:1 100 FIELDS 2 a b"],
    &["HSET h:1 a 1 b x", "HEXPIRE h:1 100 FIELDS 2 a b", "EXPIRE h:1 1000"],
];
const ON_SETS: [&str; 6] =
    ["SADD s:1 b c", "SREM s:1 a", "SREM s:1 a b", "EXPIRE s:1 50", "EXPIRE s:1 500 GT", "PERSIST s:1"];
const ON_HASHES: [&str; 7] = [
    "HSET h:1 b 2 c 3",
    "HSETNX h:1 a 2",
    "HDEL h:1 a",
    "HDEL h:1 a b",
    "HINCRBY h:1 a 5",
    "EXPIRE h:1 50",
    "EXPIRE h:1 500 XX",
];
/// On the same in parts.
const ON_PARTS: [&str; 4] = ["EXPIRE s:2 50", "PEXPIREAT s:2 2500000000000 XX", "PERSIST s:2", "PERSIST s:2"];

struct Client<'l> {
    conversations: Conversations<'l, ()>,
    wire: Wire,
    now_ms: i64,
}

impl Client<'_> {
    /// How many times something was sent.
    fn round_trips(&mut self, command: &str) -> usize {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut nonce = 0;
        let mut nonces = || {
            nonce += 1;
            nonce
        };
        let outside = &mut Outside { now_ms: self.now_ms, nonces: &mut nonces };
        self.conversations.begin(&args, (), outside).unwrap();
        let mut sent = 0;
        loop {
            if let Some(((), answer)) = self.conversations.poll_answer() {
                assert!(!answer.starts_with(b"-"), "{command}: {}", answer.escape_ascii());
                return sent;
            }
            let to_send = std::mem::take(self.conversations.wire());
            sent += usize::from(!to_send.is_empty());
            self.wire.send_bytes(&to_send).unwrap();
            self.conversations.handle_reply(&self.wire.reply().unwrap(), outside).unwrap();
        }
    }
}

fn client<'l>(layout: &'l Layout, server: &Server) -> Client<'l> {
    let mut wire = server.connect().unwrap();
    let time = wire.ask(&[b"TIME"]).unwrap();
    let seconds: i64 = String::from_utf8_lossy(time.elements().unwrap()[0].bytes().unwrap()).parse().unwrap();
    let info = ServerInfo { name: server.flavor().name().to_owned(), version: server.version().to_string() };
    Client { conversations: Conversations::new(Context::without_data(layout, info)), wire, now_ms: seconds * 1000 }
}

#[test]
fn writes_that_look_at_the_old_value_take_one_round_trip() {
    let layout = Layout::parse_file(LAYOUT).unwrap();
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let mut client = client(&layout, &server);
        let mut check = |before: &str, command: &str| {
            client.round_trips("DEL n:1");
            if !before.is_empty() {
                client.round_trips(&format!("SET n:1 {before}"));
            }
            client.round_trips(command)
        };
        for before in BEFORE {
            let sums = if before.starts_with("text") { &[][..] } else { &SUMS };
            for command in COMMANDS.iter().chain(sums) {
                // The first time the server gets a script's text, or a counter turns out to expire.
                check(before, command);
                assert_eq!(check(before, command), 1, "{command} on {before:?}, {}", binary.name());
            }
        }
        check("", "DEL n:2 n:3 plain");
        let many = "MSETNX n:1 a n:2 b n:3 c plain d";
        check("", many);
        assert!(check("text", many) > 1 && check("", many) > 1, "it finds something there");
        check("", "DEL n:2 n:3 plain");
        assert_eq!(check("", many), 1, "MSETNX, {}", binary.name());
        assert!(check("text", "SETBIT n:1 9999 1") > 1, "what isn't ordinary is worked out");
        assert!(check("", "BITFIELD n:1 GET u8 0 SET u63 0 5") > 1, "a double hasn't all integers of 63 bits");
    }
}

#[test]
fn writes_on_sets_and_hashes_take_one_round_trip() {
    let layout = Layout::parse_file(LAYOUT).unwrap();
    let many: Vec<String> = (0..200).map(|number| format!("member{number}")).collect();
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let mut client = client(&layout, &server);
        let mut check = |before: &[&str], command: &str| {
            client.round_trips("DEL s:1 h:1");
            before.iter().for_each(|before| _ = client.round_trips(before));
            client.round_trips(command)
        };
        let sets = SETS.iter().flat_map(|before| ON_SETS.map(|command| (*before, command)));
        let hashes = HASHES.iter().flat_map(|before| ON_HASHES.map(|command| (*before, command)));
        for (before, command) in sets.chain(hashes) {
            check(before, command);
            assert_eq!(check(before, command), 1, "{command} on {before:?}, {}", binary.name());
        }
        for many in many.chunks(50) {
            client.round_trips(&format!("SADD s:2 {}", many.join(" ")));
        }
        for command in ON_PARTS {
            assert_eq!(client.round_trips(command), 1, "{command}, {}", binary.name());
        }
        let last = "PERSIST h:1";
        assert!(
            client.round_trips("HPEXPIREAT h:1 2500000000000 FIELDS 1 a") > 1,
            "a field's own expiry is worked out"
        );
        client.round_trips("EXPIRE h:1 100");
        assert!(client.round_trips(last) > 1, "it might expire with the last of its fields from then on");
    }
}
