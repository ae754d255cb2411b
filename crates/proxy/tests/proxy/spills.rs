//! Large values under folded keys: the server works on them where they lie, and answers what it answers to plain ones.

use std::time::Duration;

use keyfold_core::layout::Layout;
use keyfold_testkit::{Binary, Server, found, found_with_redis_7};

use super::both::{Both, short, shown};
use super::stage::{Stage, config_for, eventually, serve};

const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n\n\
    [[namespace]]\nkeys = \"doc:{id:int}\"\nbucket = { span = 64 }\ncodec = \"zstd\"\n";

/// Steps of the random conversation, on each server and in each protocol.
const STEPS: usize = 400;

fn folded(binary: &Binary) -> Stage {
    let server = binary.start(&[]).unwrap();
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    Stage { proxy: serve(&server, config), server }
}

/// The spilled values in the server: their names, and whether each stays.
fn spills(server: &Server) -> Vec<(Vec<u8>, bool)> {
    let mut wire = server.connect().unwrap();
    let names = wire.ask(&[b"KEYS", b"~*!*"]).unwrap();
    let names = names.elements().unwrap().iter().map(|name| name.bytes().unwrap().to_vec());
    names.map(|name| (name.clone(), wire.call(&[b"TTL", &name]).unwrap() == b":-1\r\n")).collect()
}

fn kept_spills(server: &Server) -> usize {
    spills(server).iter().filter(|(_, stays)| *stays).count()
}

/// A seeded generator; the same conversation on every run.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const KEYS: [&str; 5] = ["user:1", "user:2", "user:70", "doc:1", "plain"];
const OFFSETS: [&str; 8] = ["0", "7", "100", "16383", "16385", "100000", "1200000", "-5"];
const TEMPLATES: [&str; 44] = [
    "SETRANGE k o abc",
    "SETRANGE k 2500000 z",
    "SETRANGE k 600000000 z",
    "SETRANGE k x z",
    "APPEND k tail",
    "APPEND k l",
    "SETBIT k o 1",
    "SETBIT k 9000000 1",
    "SETBIT k o 2",
    "SETBIT k 4294967296 1",
    "BITFIELD k SET u63 #1000 9223372036854775807 GET u63 #1000 INCRBY i64 70000 -3 GET i64 70000",
    "BITFIELD k OVERFLOW FAIL INCRBY u2 2000000 3 INCRBY u2 2000000 3",
    "BITFIELD k GET u70 1",
    "BITFIELD_RO k GET u8 o",
    "GETRANGE k o 20000",
    "GETRANGE k -3 -1",
    "GETBIT k o",
    "BITCOUNT k",
    "BITCOUNT k 10 20000 BIT",
    "BITPOS k 1",
    "BITPOS k 0 3",
    "STRLEN k",
    "GET k",
    "GETDEL k",
    "GETEX k EX 1000",
    "GETEX k PERSIST",
    "GETSET k l",
    "SET k l",
    "SET k l KEEPTTL",
    "SET k small",
    "INCR k",
    "INCRBYFLOAT k 1.5",
    "DEL k",
    "EXISTS k k user:2",
    "TYPE k",
    "EXPIRE k 1000",
    "PERSIST k",
    "TTL k",
    "RENAME k j",
    "COPY k j REPLACE",
    "MGET k j user:1",
    "BITOP XOR j k user:1",
    "DUMP k",
    "LPUSH k x",
];

/// One command of the conversation: `k` and `j` stand for keys, `o` for an offset, `l` for a large value.
fn command(random: &mut Random) -> Vec<Vec<u8>> {
    let template = random.pick(&TEMPLATES);
    let large = [b'x' + u8::try_from(random.below(3)).unwrap()].repeat(15_000 + random.below(100_000));
    let word = |word: &str| match word {
        "k" | "j" => random.pick(&KEYS).as_bytes().to_vec(),
        "o" => random.pick(&OFFSETS).as_bytes().to_vec(),
        "l" => large.clone(),
        word => word.as_bytes().to_vec(),
    };
    template.split(' ').map(word).collect()
}

fn is_about_other_types(args: &[Vec<u8>]) -> bool {
    args[0] == b"LPUSH"
}

#[test]
fn any_command_on_large_values_answers_what_the_plain_server_does() {
    for (binary, protocol) in found_with_redis_7().iter().zip([&b"2"[..], b"3"].into_iter().cycle()) {
        let (plain, stage) = (binary.start(&[]).unwrap(), folded(binary));
        let mut both = Both::connect(&plain, stage.connect());
        both.plain.call(&[b"HELLO", protocol]).unwrap();
        both.folded.call(&[b"HELLO", protocol]).unwrap();
        let mut random = Random(7);
        for _ in 0..STEPS {
            let args = command(&mut random);
            // On a key that isn't there it would make a list, which a folded key can't be.
            let exists = both.plain.call(&[b"EXISTS", &args[1]]).unwrap() == b":1\r\n";
            if is_about_other_types(&args) && !exists {
                continue;
            }
            if random.below(8) == 0 {
                both.same(&[b"MULTI"]);
                for _ in 0..=random.below(4) {
                    let args = command(&mut random);
                    if !is_about_other_types(&args) {
                        both.same(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    }
                }
                both.same(&[b"EXEC"]);
                continue;
            }
            both.same(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        for key in KEYS {
            both.same(&[b"GET", key.as_bytes()]);
            both.same(&[b"EXPIRETIME", key.as_bytes()]);
        }
        let held = KEYS.iter().filter(|key| key.contains(':')).filter(|key| {
            let len = both.folded.ask(&[b"STRLEN", key.as_bytes()]).unwrap().integer();
            len.is_some_and(|len| len > 1000)
        });
        assert!(kept_spills(&stage.server) <= held.count() + 2, "{}: {:?}", plain.name(), spills(&stage.server));
    }
}

#[test]
fn a_value_grows_where_it_lies_and_leaves_one_spill() {
    for binary in found() {
        let (plain, stage) = (binary.start(&[]).unwrap(), folded(&binary));
        let mut both = Both::connect(&plain, stage.connect());
        both.all_same(&["SET user:1 small EX 1000", "SETRANGE user:1 2000000 end", "TTL user:1", "STRLEN user:1"]);
        both.all_same(&["APPEND user:1 more", "SETBIT user:1 5 1", "GETRANGE user:1 0 9", "EXPIRE user:1 500"]);
        assert_eq!(kept_spills(&stage.server), 1);
        both.all_same(&[
            "MULTI",
            "APPEND user:1 again",
            "BITCOUNT user:1",
            "STRLEN user:1",
            "SETRANGE user:2 2000000 x",
        ]);
        both.same(&[b"EXEC"]);
        assert_eq!(kept_spills(&stage.server), 2);
        both.all_same(&["SETRANGE user:3 600000000 x", "EXISTS user:3", "GET user:1", "GET user:2", "TTL user:1"]);
        let before = spills(&stage.server);
        both.all_same(&["EXPIRE user:2 100", "PERSIST user:2", "EXISTS user:2"]);
        assert_eq!(spills(&stage.server), before, "another expiry leaves the value where it is");
        both.all_same(&["RENAME user:2 user:70", "GET user:70", "EXISTS user:2", "COPY user:70 user:2", "GET user:2"]);
        both.all_same(&[
            "RENAME user:70 plain",
            "GET plain",
            "TTL plain",
            "COPY user:1 plain2",
            "DEL user:1",
            "GET plain2",
        ]);
        eventually("one spill stays", || kept_spills(&stage.server) == 1);
    }
}

/// A value over the namespaces' `value_limit`, of one letter.
fn long(letter: u8) -> Vec<u8> {
    [letter].repeat(5_000)
}

/// Writes of several values at once, most of them spilled, and the keys that hold a spilled value after each. No codec
/// is asked for under `user:`, so that each long value is spilled.
fn writes_of_several() -> Vec<(Vec<Vec<u8>>, usize)> {
    let set = |name: &str, pairs: &[(&str, &[u8])]| {
        let pairs = pairs.iter().flat_map(|(key, value)| [key.as_bytes().to_vec(), value.to_vec()]);
        [name.as_bytes().to_vec()].into_iter().chain(pairs).collect::<Vec<_>>()
    };
    let [a, b, c, d] = [b'a', b'b', b'c', b'd'].map(long);
    vec![
        // Two in one bucket, one in another, a short one between them, and a plain key.
        (set("MSET", &[("user:1", &a), ("user:2", &b), ("user:3", b"short"), ("user:70", &c), ("plain", &d)]), 3),
        // Over spilled values: long, short, and where there was a short one.
        (set("MSET", &[("user:1", &b), ("user:2", b"short"), ("user:3", &c), ("user:70", &d)]), 3),
        // One key several times: the last value counts.
        (set("MSET", &[("user:1", &a), ("user:2", &a), ("user:1", &c), ("user:1", &d)]), 4),
        (set("MSET", &[("user:5", &a), ("user:5", b"short"), ("user:6", b"short"), ("user:6", &b)]), 5),
        // All or nothing.
        (set("MSETNX", &[("user:7", &a), ("user:8", &b), ("user:71", &c)]), 8),
        (set("MSETNX", &[("user:9", &a), ("user:72", &b), ("user:1", &c)]), 8),
        (set("MSETNX", &[("user:9", &a), ("user:9", &b), ("user:73", &c), ("user:73", b"short")]), 9),
        (set("MSET", &[("user:1", b"s"), ("user:2", b"s"), ("user:3", b"s"), ("user:7", b"s"), ("user:9", b"s")]), 4),
        (vec![b"DEL".to_vec(), b"user:6".to_vec(), b"user:8".to_vec(), b"user:70".to_vec(), b"user:71".to_vec()], 0),
    ]
}

#[test]
fn several_spilled_values_written_at_once_leave_no_other_behind() {
    for (binary, in_transaction) in found().iter().flat_map(|binary| [(binary, false), (binary, true)]) {
        let (plain, stage) = (binary.start(&[]).unwrap(), folded(binary));
        let mut both = Both::connect(&plain, stage.connect());
        for (args, held) in writes_of_several() {
            let args: Vec<_> = args.iter().map(Vec::as_slice).collect();
            if in_transaction {
                both.same(&[b"MULTI"]);
                both.same(&args);
                both.same(&[b"EXEC"]);
            } else {
                both.same(&args);
            }
            // What was replaced goes a moment after the answer.
            let what = format!("{held} spilled values stay after {}", shown(&args));
            eventually(&what, || kept_spills(&stage.server) == held);
            both.all_same(&[
                "MGET user:1 user:2 user:3 user:5 user:6 user:7 user:8 user:9",
                "MGET user:70 user:71 user:72 user:73",
            ]);
        }
    }
}

#[test]
fn clients_that_write_the_same_several_values_leave_one_of_each() {
    let stage = folded(found().last().unwrap());
    let keys = ["user:1", "user:2", "user:70"];
    std::thread::scope(|scope| {
        for letter in [b'a', b'b', b'c', b'd'] {
            let mut wire = stage.connect();
            scope.spawn(move || {
                for round in 0..25 {
                    let value = [long(letter), vec![b'0' + round % 10]].concat();
                    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
                    let args: Vec<_> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
                    assert_eq!(wire.call(&args).unwrap(), b"+OK\r\n");
                }
            });
        }
    });
    eventually("one spilled value of each key stays", || kept_spills(&stage.server) == keys.len());
    for key in keys {
        assert_eq!(stage.connect().call(&[b"STRLEN", key.as_bytes()]).unwrap(), b":5001\r\n");
    }
}

#[test]
fn several_values_that_the_server_has_no_room_for_leave_nothing() {
    for binary in found() {
        let stage = folded(&binary);
        let mut wire = stage.connect();
        wire.call(&[b"SET", b"user:1", &long(b'a')]).unwrap();
        let mut server = stage.server.connect().unwrap();
        assert_eq!(server.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap(), b"+OK\r\n");
        let args: [&[u8]; 7] = [b"MSET", b"user:1", &long(b'b'), b"user:2", &long(b'c'), b"user:70", &long(b'd')];
        let refused = wire.call(&args).unwrap();
        assert!(refused.starts_with(b"-OOM"), "{}: {}", binary.name(), short(&refused));
        wire.call(&[b"MULTI"]).unwrap();
        wire.call(&args).unwrap();
        let refused = wire.call(&[b"EXEC"]).unwrap();
        assert!(refused.windows(4).any(|part| part == b"-OOM"), "{}: {}", binary.name(), short(&refused));
        server.call(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
        eventually("the one that was there stays", || kept_spills(&stage.server) == 1);
        assert_eq!(wire.call(&[b"GET", b"user:1"]).unwrap(), [&b"$5000\r\n"[..], &long(b'a'), b"\r\n"].concat());
        assert_eq!(wire.call(&[b"EXISTS", b"user:2", b"user:70"]).unwrap(), b":0\r\n");
    }
}

#[test]
fn commands_of_other_types_find_a_string() {
    for binary in found() {
        let (plain, stage) = (binary.start(&[]).unwrap(), folded(&binary));
        let mut both = Both::connect(&plain, stage.connect());
        both.all_same(&[
            "SETRANGE user:1 100000 x",
            "LPUSH user:1 a",
            "HGETALL user:1",
            "PFADD user:1 a",
            "PFCOUNT user:1",
        ]);
        both.all_same(&[
            "MULTI",
            "LLEN user:1",
            "SADD user:1 a",
            "PFCOUNT user:1",
            "STRLEN user:1",
            "EXEC",
            "GET user:1",
        ]);
        // Sparse HyperLogLogs may be as long as one likes.
        let sparse = [&b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80"[..], &b"\x7f\xff".repeat(20_000)].concat();
        both.same(&[b"SET", b"user:1", &sparse]);
        both.all_same(&["PFCOUNT user:1", "MULTI", "PFCOUNT user:1", "EXEC"]);
    }
}

#[test]
fn the_servers_own_limit_is_its_answer_and_leaves_nothing() {
    for binary in found() {
        let limit = ["--proto-max-bulk-len", "1048576"];
        let plain = binary.start(&limit).unwrap();
        let server = binary.start(&limit).unwrap();
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(LAYOUT).unwrap().into();
        let stage = Stage { proxy: serve(&server, config), server };
        let mut both = Both::connect(&plain, stage.connect());
        both.all_same(&["SETRANGE user:1 1500000 x", "EXISTS user:1", "SET user:1 small", "SETRANGE user:1 1500000 x"]);
        both.all_same(&["GET user:1", "MULTI", "SETRANGE user:2 1500000 x", "EXEC", "EXISTS user:2", "GET user:2"]);
        both.all_same(&["SETRANGE user:1 1000000 x", "SETRANGE user:1 1500000 x", "STRLEN user:1"]);
    }
}

#[test]
fn a_large_value_expires_like_any_other() {
    for binary in found() {
        let (plain, stage) = (binary.start(&[]).unwrap(), folded(&binary));
        let mut both = Both::connect(&plain, stage.connect());
        both.all_same(&["SETRANGE user:1 1500000 x", "PEXPIRE user:1 300"]);
        eventually("it is gone", || both.folded.call(&[b"EXISTS", b"user:1"]).unwrap() == b":0\r\n");
        eventually("it is gone there", || both.plain.call(&[b"EXISTS", b"user:1"]).unwrap() == b":0\r\n");
        both.all_same(&[
            "GET user:1",
            "STRLEN user:1",
            "GETBIT user:1 12000007",
            "APPEND user:1 new",
            "GET user:1",
            "TTL user:1",
        ]);
        both.all_same(&["SET user:2 small", "PEXPIRE user:2 300", "SETRANGE user:3 1500000 x", "PEXPIRE user:3 300"]);
        for key in [b"user:2", b"user:3"] {
            eventually("it is gone", || both.folded.call(&[b"EXISTS", key]).unwrap() == b":0\r\n");
            eventually("it is gone there", || both.plain.call(&[b"EXISTS", key]).unwrap() == b":0\r\n");
        }
        both.all_same(&[
            "SETRANGE user:2 1500000 x",
            "TTL user:2",
            "SETRANGE user:3 2500000 x",
            "TTL user:3",
            "GET user:3",
        ]);
    }
}

#[test]
fn clients_that_write_to_one_large_value_lose_nothing() {
    let stage = folded(found().last().unwrap());
    stage.connect().call(&[b"SETRANGE", b"user:1", b"1500000", b"x"]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut wire = stage.connect();
            scope.spawn(move || {
                for _ in 0..25 {
                    assert!(wire.call(&[b"APPEND", b"user:1", b"y"]).unwrap().starts_with(b":15"));
                }
            });
        }
    });
    assert_eq!(stage.connect().call(&[b"STRLEN", b"user:1"]).unwrap(), b":1500101\r\n");
    assert_eq!(kept_spills(&stage.server), 1, "{:?}", spills(&stage.server));
}

#[test]
fn what_one_client_sends_at_once_is_done_in_order() {
    let stage = folded(found().last().unwrap());
    let mut wire = stage.connect();
    wire.set_timeout(Duration::from_secs(60)).unwrap();
    wire.call(&[b"SETRANGE", b"user:1", b"1500000", b"x"]).unwrap();
    for _ in 0..20 {
        wire.send(&[b"STRLEN", b"user:1"]).unwrap();
        wire.send(&[b"GET", b"user:1"]).unwrap();
        wire.send(&[b"APPEND", b"user:1", b"y"]).unwrap();
    }
    for len in 1_500_001..1_500_021 {
        assert_eq!(wire.reply().unwrap(), format!(":{len}\r\n").as_bytes());
        let value = wire.reply().unwrap();
        assert!(value.starts_with(format!("${len}\r\n").as_bytes()), "{} after {len}", short(&value));
        assert_eq!(wire.reply().unwrap(), format!(":{}\r\n", len + 1).as_bytes());
    }
}
