//! Writes of single members and fields of folded sets and hashes are one call of a script, whatever integers, texts and bytes there
//! are, and leave what a plain server has.

use keyfold_core::resp::write_command;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Wire, found};

use super::stage::{address, call, proxy_before};

const LAYOUT: &str = r#"
    [[namespace]]
    keys = "tags:{id:int}"
    type = "set"
    bucket = { span = 8 }
    value_limit = 200
    [[namespace]]
    keys = "sess:{id:int}"
    type = "hash"
    bucket = { count = 2 }
    value_limit = 200
"#;

/// Integers at the borders of packed bytes, of Lua's numbers and of 64 bits, with what only looks like one.
const INTEGERS: [&str; 36] = [
    "0",
    "1",
    "-1",
    "47",
    "48",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "32767",
    "32768",
    "-32769",
    "16777216",
    "2147483648",
    "-2147483649",
    "140737488355327",
    "140737488355328",
    "-140737488355328",
    "-140737488355329",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "007",
    "+7",
    "-0",
    "7.0",
    " 7",
    "1e3",
    "0x10",
    "99999999999",
    "4398046511104",
];

fn text(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => (random.below(12)).to_string().into_bytes(),
        1..=5 => random.pick(&INTEGERS).as_bytes().to_vec(),
        6 => (0..random.below(5)).map(|_| *random.pick(b"\x00\xff\xc0\xc8\xd0AB@\r\n")).collect(),
        7 => vec![b'x'; [0, 1, 60, 191, 192, 199][random.index(6)]],
        _ => random.pick(&["a", "b", "name", "count"]).as_bytes().to_vec(),
    }
}

fn texts(random: &mut Random, most: u64) -> Vec<Vec<u8>> {
    (0..=random.below(most)).map(|_| text(random)).collect()
}

fn command(random: &mut Random, most: u64) -> Vec<Vec<u8>> {
    let words = |name: &str, key: &str| vec![name.as_bytes().to_vec(), key.as_bytes().to_vec()];
    let id = random.below(4);
    let (set, hash) = (format!("tags:{id}"), format!("sess:{id}"));
    match random.below(9) {
        0..=2 => [words("SADD", &set), texts(random, most)].concat(),
        3 => [words("SREM", &set), texts(random, most)].concat(),
        4 => {
            let pairs = texts(random, most).into_iter().flat_map(|name| [name, text(random)]).collect();
            [words(random.pick::<&str>(&["HSET", "HMSET"]), &hash), pairs].concat()
        }
        5 => [words("HSETNX", &hash), vec![text(random), text(random)]].concat(),
        6 => [words("HDEL", &hash), texts(random, most)].concat(),
        7 => [words("HINCRBY", &hash), vec![text(random), text(random)]].concat(),
        _ => match random.below(40) {
            0 => words("DEL", &set),
            1 => words("DEL", &hash),
            2 => [words("PEXPIRE", &set), vec![b"5000000".to_vec()]].concat(),
            3 => [words("PEXPIRE", &hash), vec![b"5000000".to_vec()]].concat(),
            4 => words("PERSIST", &hash),
            _ => words("SCARD", &set),
        },
    }
}

pub(crate) fn send(wire: &mut Wire, command: &[Vec<u8>]) -> Vec<u8> {
    wire.call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
}

/// All members, or fields with their values, and whether the key expires.
pub(crate) fn content(wire: &mut Wire, key: &str, is_hash: bool) -> (Vec<Vec<Vec<u8>>>, bool) {
    let reply = wire.ask(&[if is_hash { b"HGETALL" } else { b"SMEMBERS" }, key.as_bytes()]).unwrap();
    let all: Vec<Vec<u8>> = reply.elements().unwrap().iter().map(|element| element.bytes().unwrap().to_vec()).collect();
    let mut all: Vec<Vec<Vec<u8>>> = all.chunks(if is_hash { 2 } else { 1 }).map(<[_]>::to_vec).collect();
    all.sort_unstable();
    (all, !call(wire, &format!("PTTL {key}")).starts_with(":-"))
}

fn same(plain: &mut Wire, folded: &mut Wire, what: &str) {
    for id in 0..4 {
        for (key, is_hash) in [(format!("tags:{id}"), false), (format!("sess:{id}"), true)] {
            assert_eq!(content(folded, &key, is_hash), content(plain, &key, is_hash), "{key} after {what}");
        }
    }
}

pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let stats = call(&mut server.connect().unwrap(), "INFO commandstats");
    let head = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&head)?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn any_texts_leave_what_a_plain_server_has() {
    for binary in found() {
        let (oracle, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server, LAYOUT);
        let (mut plain, mut folded) = (oracle.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
        let mut random = Random::new(20);
        for round in 0..2000 {
            let command = command(&mut random, if round % 50 == 0 { 40 } else { 3 });
            let shown = command.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
            let (expected, answer) = (send(&mut plain, &command), send(&mut folded, &command));
            assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{shown}");
            let key = std::str::from_utf8(&command[1]).unwrap();
            let [left, right] = [&mut plain, &mut folded].map(|wire| content(wire, key, key.starts_with("sess")));
            assert_eq!(right, left, "{key} after {shown}");
        }
        same(&mut plain, &mut folded, "all of it");
        let (scripts, written) = (calls(&server, "evalsha"), calls(&oracle, "sadd") + calls(&oracle, "hset"));
        assert!(scripts > written, "{scripts} calls of scripts for {written} SADD and HSET and their kin");
    }
}

#[test]
fn requests_behind_each_other_are_joined_and_answered_in_order() {
    for binary in found() {
        let (oracle, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server, LAYOUT);
        let (mut plain, mut folded) = (oracle.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
        let mut random = Random::new(21);
        for round in 0..40 {
            let commands: Vec<_> = (0..50).map(|_| command(&mut random, 3)).collect();
            let mut bytes = Vec::new();
            for command in &commands {
                write_command(&mut bytes, &command.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            let answers = [&mut plain, &mut folded].map(|wire| {
                wire.send_bytes(&bytes).unwrap();
                commands.iter().map(|_| wire.reply().unwrap().escape_ascii().to_string()).collect::<Vec<_>>()
            });
            assert_eq!(answers[0], answers[1], "round {round}");
            same(&mut plain, &mut folded, &format!("round {round}"));
        }
    }
}

/// A key that goes in the midst of a call takes its expiry with it.
#[test]
fn what_comes_behind_the_last_member_in_a_call_makes_a_key_of_its_own() {
    for binary in found() {
        let (oracle, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server, LAYOUT);
        let (mut plain, mut folded) = (oracle.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
        let hash = "HSET sess:1 f v\nEXPIRE sess:1 100\n";
        let set = "SADD tags:1 a\nEXPIRE tags:1 100\n";
        for (before, at_once) in [
            (hash, "HDEL sess:1 f\nHSET sess:1 g w\nTTL sess:1"),
            (hash, "HDEL sess:1 f\nHSETNX sess:1 f w\nTTL sess:1"),
            (hash, "HDEL sess:1 f\nHINCRBY sess:1 n 1\nTTL sess:1"),
            (hash, "HDEL sess:1 f\nHSET sess:1 n 1\nEXPIRE sess:1 50 NX\nTTL sess:1"),
            (hash, "HDEL sess:1 f\nHSET sess:1 n 1\nPERSIST sess:1"),
            (set, "SREM tags:1 a\nSADD tags:1 b\nTTL tags:1"),
            (set, "SREM tags:1 a\nSADD tags:1 5\nEXPIRE tags:1 50 NX\nTTL tags:1"),
        ] {
            let answers = [&mut plain, &mut folded].map(|wire| {
                call(wire, "DEL sess:1 tags:1");
                before.lines().for_each(|line| assert!(call(wire, line).starts_with(':'), "{line}"));
                let commands: Vec<&str> = at_once.lines().collect();
                wire.send_bytes(&super::stage::commands(&commands)).unwrap();
                commands.iter().map(|_| wire.reply().unwrap().escape_ascii().to_string()).collect::<Vec<_>>()
            });
            assert_eq!(answers[1], answers[0], "{}: {at_once}", server.name());
        }
        // The same where the field itself expires, before any server.
        call(&mut folded, "DEL sess:1");
        assert_eq!(call(&mut folded, "HSET sess:1 f v"), ":1\r\n");
        assert_eq!(call(&mut folded, "HEXPIRE sess:1 100 FIELDS 1 f"), "*1\r\n:1\r\n");
        let at_once = super::stage::commands(&["HDEL sess:1 f", "HSET sess:1 g w"]);
        folded.send_bytes(&at_once).unwrap();
        let answers = [folded.reply().unwrap(), folded.reply().unwrap()];
        assert_eq!(answers, [b":1\r\n", b":1\r\n"]);
        assert_eq!(call(&mut folded, "TTL sess:1"), ":-1\r\n", "{}", server.name());
        assert_eq!(call(&mut folded, "HTTL sess:1 FIELDS 1 g"), "*1\r\n:-1\r\n", "{}", server.name());
    }
}

#[test]
fn a_member_is_written_by_one_request_to_the_server() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxy = proxy_before(&server, LAYOUT);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    for line in ["SADD tags:1 a 5", "HSET sess:1 f 1", "SADD tags:2 5 9"] {
        call(&mut client, line);
    }
    let before = (calls(&server, "evalsha"), calls(&server, "hget"));
    for line in [
        "SADD tags:1 b",
        "SREM tags:1 a",
        "SADD tags:2 7 -3",
        "SREM tags:2 9",
        "HSET sess:1 f 2 g 3",
        "HSETNX sess:1 h 1",
        "HMSET sess:1 i 1",
        "HDEL sess:1 g",
        "HINCRBY sess:1 f 40",
        "SADD tags:3 1 2",
    ] {
        assert!(!call(&mut client, line).starts_with('-'), "{line}");
    }
    assert_eq!(calls(&server, "evalsha") - before.0, 10, "each is one call");
    // The script's own reads are counted with those of clients.
    assert_eq!(calls(&server, "hget") - before.1, 10, "nothing is read but by these");
    assert_eq!(call(&mut client, "HGET sess:1 f"), "$2\r\n42\r\n");
    assert_eq!(calls(&server, "hget") - before.1, 11);
}
