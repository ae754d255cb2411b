//! A few keys at a fixed time, and what commands on hashes make of them.

use crate::collection::{Collection, Field, Hash};
use crate::command::table;
use crate::dialect::{Dialect, Since};
use crate::resp::{Answer, Protocol};
use crate::server_info::ServerInfo;
use crate::string::{Call, Collected, Halt, Held, Reply, Space, finish};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/// A space that commands are run on one by one, each on what the one before left.
struct Fixture {
    space: Space,
    server: ServerInfo,
    protocol: Protocol,
}

/// A list `l`, and a hash `k`: `a` of 1, `b` of two which expires at 2500, and `gone`, which has expired.
fn now_is(now_ms: i64) -> Fixture {
    let mut space = Space::new(now_ms).seeded(7).noting_events(true);
    space.load(b"l", Held::Other(b"list".to_vec()));
    let field = |name: &str, value: &str, expires_at_ms| {
        (name.as_bytes().to_vec(), Field { value: value.as_bytes().to_vec(), expires_at_ms })
    };
    let fields = [field("a", "1", None), field("b", "two", Some(2500)), field("gone", "x", Some(now_ms - 1))];
    space.load(b"k", held(fields.into_iter().collect()));
    Fixture { space, server: ServerInfo::default(), protocol: Protocol::Resp2 }
}

fn held(hash: Hash) -> Held {
    Held::Collection(Collected { collection: Collection::Hash(hash), expires_at_ms: None })
}

impl Fixture {
    fn behind(mut self, name: &str, version: &str) -> Self {
        self.server = ServerInfo { name: name.to_owned(), version: version.to_owned() };
        self
    }

    fn in_resp3(mut self) -> Self {
        self.protocol = Protocol::Resp3;
        self
    }

    fn run(&mut self, command: &str) -> String {
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, self.protocol);
        let flow = run(command, &self.server, &mut self.space, &mut answer);
        finish(flow, &mut answer).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// What has happened to keys since the space began.
    fn events(&self) -> Vec<String> {
        self.space.events().map(|(key, event)| format!("{event} {}", key.escape_ascii())).collect()
    }

    fn has_changed(&self) -> bool {
        self.space.changes().next().is_some()
    }
}

fn run(command: &str, server: &ServerInfo, space: &mut Space, answer: &mut Answer<'_>) -> Result<(), Halt> {
    let args: Vec<&[u8]> = command.split(' ').map(|word| word.trim_matches('"').as_bytes()).collect();
    let function = table().resolve(&args).unwrap().members.unwrap();
    function(&Call { args: &args, dialect: Dialect::new(server, true) }, space, answer)
}

#[test]
fn what_has_expired_is_not_there() {
    let mut keys = now_is(1000);
    for (command, answer) in [
        ("HGET k gone", "$-1\r\n"),
        ("HLEN k", ":2\r\n"),
        ("HEXISTS k gone", ":0\r\n"),
        ("HSTRLEN k gone", ":0\r\n"),
        ("HSTRLEN k b", ":3\r\n"),
        ("HMGET k gone b none", "*3\r\n$-1\r\n$3\r\ntwo\r\n$-1\r\n"),
        ("HKEYS k", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("HVALS k", "*2\r\n$1\r\n1\r\n$3\r\ntwo\r\n"),
        ("HDEL k gone", ":0\r\n"),
        ("HGETALL none", "*0\r\n"),
        ("HGETALL l", WRONG_TYPE),
    ] {
        assert_eq!(keys.run(command), answer, "{command}");
    }
    assert!(!keys.has_changed() && keys.events().is_empty());
    assert_eq!(keys.run("HSETNX k gone 1"), ":1\r\n");
    assert_eq!(keys.events(), ["hexpired k", "hset k"]);
    keys.space.set_now_ms(2500);
    assert_eq!(keys.run("HGET k b"), "$3\r\ntwo\r\n");
    keys.space.set_now_ms(2501);
    assert_eq!(keys.run("HGET k b"), "$-1\r\n");
}

#[test]
fn a_hash_is_gone_with_its_last_field() {
    let mut keys = now_is(1000);
    let field = Field { value: Vec::new(), expires_at_ms: Some(999) };
    keys.space.load(b"over", held([(b"f".to_vec(), field)].into_iter().collect()));
    assert!(!keys.space.exists(b"over"));
    assert_eq!(keys.run("HSET over f v"), ":1\r\n");
    assert_eq!(keys.events(), ["hexpired over", "del over", "new over", "hset over"]);
    assert_eq!(keys.run("HDEL k a b gone"), ":2\r\n");
    assert!(!keys.space.exists(b"k"));
}

#[test]
fn maps_and_pairs_are_those_of_the_protocol() {
    let mut keys = now_is(1000).in_resp3();
    assert_eq!(keys.run("HGETALL k"), "%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$3\r\ntwo\r\n");
    assert_eq!(keys.run("HGETALL none"), "%0\r\n");
    assert_eq!(
        keys.run("HRANDFIELD k 5 WITHVALUES"),
        "*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$1\r\nb\r\n$3\r\ntwo\r\n"
    );
    let mut keys = now_is(1000);
    assert_eq!(keys.run("HRANDFIELD k 5 WITHVALUES"), "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$3\r\ntwo\r\n");
    assert_eq!(keys.run("HSCAN k 0 MATCH b*"), "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nb\r\n$3\r\ntwo\r\n");
    assert_eq!(keys.run("HSCAN k 7 NOVALUES COUNT 1"), "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

#[test]
fn cursors_are_read_as_by_the_server() {
    for (cursor, by_redis_7_0, by_redis_8) in [
        ("0", true, true),
        ("", true, false),
        ("-1", true, false),
        ("+5", true, true),
        ("01", true, true),
        ("18446744073709551615", true, true),
        ("18446744073709551616", false, false),
        ("x", false, false),
        ("-", false, false),
    ] {
        for (version, is_one) in [("7.0.15", by_redis_7_0), ("8.0.6", by_redis_8)] {
            let answer = now_is(1000).behind("redis", version).run(&format!("HSCAN none {cursor}"));
            assert_eq!(answer == "-ERR invalid cursor\r\n", !is_one, "{cursor} by {version}");
        }
    }
}

#[test]
fn counters_keep_the_expiry_and_check_in_order() {
    let mut keys = now_is(1000);
    assert_eq!(keys.run("HINCRBY k b 1"), "-ERR hash value is not an integer\r\n");
    assert_eq!(keys.run("HINCRBY l a x"), "-ERR value is not an integer or out of range\r\n");
    assert_eq!(keys.run("HINCRBY l a 1"), WRONG_TYPE);
    assert_eq!(keys.run("HINCRBY k a 9223372036854775807"), "-ERR increment or decrement would overflow\r\n");
    assert!(!keys.has_changed());
    assert_eq!(keys.run("HPEXPIRE k 100 FIELDS 1 a"), "*1\r\n:1\r\n");
    assert_eq!(keys.run("HINCRBY k a -3"), ":-2\r\n");
    assert_eq!(keys.run("HPTTL k FIELDS 1 a"), "*1\r\n:100\r\n");
    assert_eq!(keys.run("HSET k a 1"), ":0\r\n");
    assert_eq!(keys.run("HPTTL k FIELDS 1 a"), "*1\r\n:-1\r\n");
}

#[test]
fn floats_are_the_servers() {
    for (command, asked) in [
        ("HINCRBYFLOAT k a 0.5", &["HSET(scratch)f1", "HINCRBYFLOAT(scratch)f0.5", "DEL(scratch)"][..]),
        ("HINCRBYFLOAT k gone x", &["HINCRBYFLOAT(scratch)fx", "DEL(scratch)"]),
        ("HINCRBYFLOAT l a x", &["HINCRBYFLOAT(scratch)fx", "DEL(scratch)"]),
    ] {
        let mut keys = now_is(1000);
        let flow = run(command, &keys.server, &mut keys.space, &mut Answer::new(&mut Vec::new(), Protocol::Resp2));
        let Err(Halt::Ask(ask)) = flow else { panic!("{command} asks nothing: {flow:?}") };
        let shown: Vec<String> = ask.commands.iter().map(|args| args.concat().escape_ascii().to_string()).collect();
        assert_eq!(shown, asked);
    }
    let mut keys = now_is(1000);
    let mut answered = |command: &str, reply: Reply| {
        keys.space.answer_ask(vec![reply, Reply::Integer(1)]);
        keys.run(command)
    };
    assert_eq!(answered("HINCRBYFLOAT k a 0.5", Reply::Bytes(b"1.5".to_vec())), "$3\r\n1.5\r\n");
    assert_eq!(answered("HINCRBYFLOAT l a 0.5", Reply::Bytes(b"0.5".to_vec())), WRONG_TYPE);
    let refused = "-ERR value is not a valid float\r\n";
    assert_eq!(answered("HINCRBYFLOAT l a x", Reply::Error("ERR value is not a valid float".to_owned())), refused);
    assert_eq!(keys.run("HGET k a"), "$3\r\n1.5\r\n");
}

#[test]
fn fields_are_drawn_with_the_same_chance() {
    const FIELDS: usize = 20;
    const DRAWN: usize = 40_000;
    for (command, each) in [
        ("HRANDFIELD k", 1),
        ("HRANDFIELD k 1", 1),
        ("HRANDFIELD k 7", 7),
        ("HRANDFIELD k 19", 19),
        ("HRANDFIELD k -5", 5),
    ] {
        let mut keys = now_is(1000);
        let field = |at: usize| (format!("{at:02}").into_bytes(), Field::default());
        keys.space.load(b"k", held((0..FIELDS).map(field).collect()));
        let mut counts = [0_u32; FIELDS];
        for _ in 0..DRAWN / each {
            let answer = keys.run(command);
            let drawn: Vec<usize> = answer.lines().filter_map(|line| line.parse().ok()).collect();
            assert_eq!(drawn.len(), each);
            drawn.iter().for_each(|at| counts[*at] += 1);
        }
        let total: u32 = counts.iter().sum();
        let expected = f64::from(total) / FIELDS as f64;
        let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // With 19 degrees of freedom 43.8 is passed once in 1,000 times, 50.8 once in 10,000.
        assert!(chi_square < 50.8, "{command}: {chi_square}, {counts:?}");
        assert!(!keys.has_changed());
    }
}

#[test]
fn draws_are_checked_in_order() {
    let mut keys = now_is(1000);
    let range = "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n";
    for (command, answer) in [
        ("HRANDFIELD none", "$-1\r\n"),
        ("HRANDFIELD none 5", "*0\r\n"),
        ("HRANDFIELD none -5", "*0\r\n"),
        ("HRANDFIELD k 0", "*0\r\n"),
        ("HRANDFIELD l -9223372036854775808", range),
        ("HRANDFIELD l 1 nope", "-ERR syntax error\r\n"),
        ("HRANDFIELD l -9223372036854775807 withvalues", "-ERR value is out of range\r\n"),
        ("HRANDFIELD l 1", WRONG_TYPE),
    ] {
        assert_eq!(keys.run(command), answer, "{command}");
    }
    assert!(keys.run("HRANDFIELD k -2000000").starts_with("-ERR keyfold: "));
}

/// Commands with what each vendor answers and tells.
const FORMS: &[(&str, [&str; 2], [&str; 2])] = &[
    ("HSET k a 5 c 6", [":1", ":1"], ["hexpired hset", "hexpired hset"]),
    ("HMSET n a 5", ["+OK", "+OK"], ["new hset", "new hset"]),
    ("HDEL k a b", [":2", ":2"], ["hexpired hdel del", "hexpired hdel del"]),
    ("HINCRBY k a 5", [":6", ":6"], ["hexpired hincrby", "hexpired hincrby"]),
    ("HEXPIRE k 0 FIELDS 2 a a", ["*2 :2 :-2", "*2 :2 :-2"], ["hexpired hdel", "hexpired hexpired"]),
    ("HEXPIRE k 5 FIELDS 1 a", ["*1 :1", "*1 :1"], ["hexpired hexpire", "hexpired hexpire"]),
    ("HEXPIRE k 5 GT FIELDS 2 a b", ["*2 :0 :1", "*2 :0 :1"], ["hexpired hexpire", "hexpired hexpire"]),
    ("HEXPIRE k 5 XX FIELDS 1 a", ["*1 :0", "*1 :0"], ["", ""]),
    ("HEXPIRE k 0 FIELDS 2 a b", ["*2 :2 :2", "*2 :2 :2"], ["hexpired hdel del", "hexpired hexpired del"]),
    ("HEXPIRE k 5 NX NX FIELDS 1 a", [NO_FIELDS, "*1 :1"], ["", "hexpired hexpire"]),
    ("HEXPIRE k -1 FIELDS 1 a", ["-ERR invalid expire time, must be >= 0", OVER], ["", ""]),
    ("HEXPIRE k 5 FIELDS 2 a", [OTHER, NUMBER], ["", ""]),
    ("HEXPIRE l x FIELDS 1 a", [WRONG, "-ERR value is not an integer or out of range"], ["", ""]),
    ("HPEXPIREAT k 70368744177664 FIELDS 1 a", [LATE, "*1 :1"], ["", "hexpired hexpire"]),
    ("HTTL k FIELDS 3 a b gone", ["*3 :-1 :2 :-2", "*3 :-1 :2 :-2"], ["", ""]),
    ("HEXPIRETIME k FIELDS 1 b", ["*1 :3", "*1 :3"], ["", ""]),
    ("HTTL k nope 1 a", [NO_FIELDS, "-ERR syntax error"], ["", ""]),
    ("HPERSIST k FIELDS 3 a b gone", ["*3 :-1 :1 :-2", "*3 :-1 :1 :-2"], ["hexpired hpersist", "hexpired hpersist"]),
    ("HGETDEL k FIELDS 2 a none", ["*2 $1 1 $-1", "*2 $1 1 $-1"], ["hexpired hdel", "hexpired hdel"]),
    ("HGETDEL none FIELDS 1 a", ["*1 $-1", "*1 $-1"], ["", ""]),
    ("HGETEX k FIELDS 1 a", ["*1 $1 1", "*1 $1 1"], ["", ""]),
    ("HGETEX k PXAT 5 FIELDS 1 a", ["*1 $1 1", "*1 $1 1"], ["hexpired hdel", "hexpired hexpired"]),
    ("HGETEX k PERSIST FIELDS 2 a b", ["*2 $1 1 $3 two", "*2 $1 1 $3 two"], ["hexpired hpersist", "hexpired hpersist"]),
    ("HGETEX k EX 5 FIELDS", ["-ERR wrong number of arguments for 'hgetex' command", NUMBER], ["", ""]),
    ("HSETEX n EX 0 FIELDS 1 a 1", [":1", ":1"], ["new hset hdel del", "new hset hexpire hexpired del"]),
    ("HSETEX n PX 9 FIELDS 1 a 1", [":1", ":1"], ["new hset hexpire", "new hset hexpire"]),
    ("HSETEX k KEEPTTL FIELDS 1 b 1", [":1", ":1"], ["hexpired hset", "hexpired hset"]),
    ("HSETEX k FNX FIELDS 2 gone 1 a 1", [":0", ":0"], ["", ""]),
    ("HSETEX k FNX FIELDS 1 gone 1", [":1", ":1"], ["hexpired hset", "hexpired hset"]),
    ("HSETEX k NX FIELDS 1 a 1", ["-ERR unknown argument: NX", ":0"], ["", ""]),
    ("HSETEX l EX x FIELDS 1 a 1", ["-ERR value is not an integer or out of range", WRONG], ["", ""]),
];

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_FIELDS: &str = "-ERR Mandatory argument FIELDS is missing or not at the right position";
const OTHER: &str = "-ERR The `numfields` parameter must match the number of arguments";
const NUMBER: &str = "-ERR numfields should be greater than 0 and match the provided number of fields";
const OVER: &str = "-ERR invalid expire time in 'hexpire' command";
const LATE: &str = "-ERR invalid expire time in 'hpexpireat' command";

#[test]
fn newer_commands_are_in_the_vendors_form() {
    for (command, answers, events) in FORMS {
        let forms = answers.iter().zip(events).zip([("redis", "8.0.6"), ("valkey", "9.1.2")]);
        for ((answer, events), (name, version)) in forms {
            let mut keys = now_is(1000).behind(name, version);
            let reply = keys.run(command);
            assert_eq!(reply.trim_end().replace("\r\n", " "), *answer, "{command} by {name}");
            let told: Vec<String> = keys.space.events().map(|(_, event)| event.to_string()).collect();
            assert_eq!(told.join(" "), *events, "{command} by {name}");
            assert_eq!(keys.has_changed(), !events.is_empty(), "{command} by {name}");
        }
    }
}

#[test]
fn seconds_are_those_begun_or_the_nearest() {
    for (at, by_redis, by_valkey) in [("2499", ":3", ":2"), ("2500", ":3", ":3"), ("2001", ":3", ":2")] {
        for (name, version, shown) in [("redis", "8.0.6", by_redis), ("valkey", "9.1.2", by_valkey)] {
            let mut keys = now_is(1000).behind(name, version);
            keys.run(&format!("HPEXPIREAT k {at} FIELDS 1 a"));
            assert_eq!(keys.run("HEXPIRETIME k FIELDS 1 a"), format!("*1\r\n{shown}\r\n"), "{at} by {name}");
        }
    }
    let mut keys = now_is(1000).behind("valkey", "9.1.2");
    keys.run("HPEXPIREAT k 9223372036854775807 FIELDS 1 a");
    assert_eq!(keys.run("HEXPIRETIME k FIELDS 1 a"), "*1\r\n:9223372036854776\r\n");
}

#[test]
fn a_server_that_has_none_of_them_goes_by_redis() {
    for (name, version, answer) in
        [("redis", "7.0.15", NO_FIELDS), ("valkey", "8.0.1", "-ERR syntax error"), ("", "", NO_FIELDS)]
    {
        assert_eq!(now_is(1000).behind(name, version).run("HTTL k nope 1 a").trim_end(), answer, "{name}");
    }
}

#[test]
fn newer_commands_say_so() {
    for (name, since) in [
        ("hexpire", Some(Since::HASH_FIELD_EXPIRY)),
        ("hpttl", Some(Since::HASH_FIELD_EXPIRY)),
        ("hgetex", Some(Since::HGETEX)),
        ("hgetdel", Some(Since::HGETDEL)),
        ("hset", None),
    ] {
        assert_eq!(crate::members::since(name), since, "{name}");
    }
}
