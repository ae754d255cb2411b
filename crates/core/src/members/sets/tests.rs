//! Sets by command: what is answered, and what is told of keys.

use std::collections::BTreeMap;

use crate::resp::Protocol;
use crate::string::tests::{Fixture, now_is};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/// A set of three, one of two, a string and a list.
fn keys() -> Fixture {
    let mut keys = now_is(1000).seeded(7);
    keys.set("a", &["x", "y", "1"]);
    keys.set_until("b", &["y", "z"], Some(5000));
    keys.string("s", "v");
    keys.other("l", "list");
    keys
}

fn run(keys: &mut Fixture, command: &str) -> String {
    keys.run(&command.split(' ').collect::<Vec<_>>())
}

#[test]
fn answers() {
    for (command, answer) in [
        ("SADD a x w w", ":1\r\n"),
        ("SADD a x", ":0\r\n"),
        ("SADD none x x", ":1\r\n"),
        ("SREM a x q x", ":1\r\n"),
        ("SREM none x", ":0\r\n"),
        ("SCARD a", ":3\r\n"),
        ("SCARD none", ":0\r\n"),
        ("SISMEMBER a x", ":1\r\n"),
        ("SISMEMBER a 01", ":0\r\n"),
        ("SISMEMBER none x", ":0\r\n"),
        ("SMISMEMBER a x q 1", "*3\r\n:1\r\n:0\r\n:1\r\n"),
        ("SMISMEMBER none x q", "*2\r\n:0\r\n:0\r\n"),
        ("SMEMBERS b", "*2\r\n$1\r\ny\r\n$1\r\nz\r\n"),
        ("SMEMBERS none", "*0\r\n"),
        ("SMOVE a b x", ":1\r\n"),
        ("SMOVE a b q", ":0\r\n"),
        ("SMOVE a a x", ":1\r\n"),
        ("SMOVE a a q", ":0\r\n"),
        ("SMOVE none s x", ":0\r\n"),
        ("SINTER a b", "*1\r\n$1\r\ny\r\n"),
        ("SINTER a none", "*0\r\n"),
        ("SUNION none none", "*0\r\n"),
        ("SDIFF b a none", "*1\r\n$1\r\nz\r\n"),
        ("SDIFF a a", "*0\r\n"),
        ("SINTERCARD 2 a b", ":1\r\n"),
        ("SINTERCARD 1 a LIMIT 2", ":2\r\n"),
        ("SINTERCARD 1 a limit 2 LIMIT 0", ":3\r\n"),
        ("SINTERSTORE l a b", ":1\r\n"),
        ("SUNIONSTORE a a b", ":4\r\n"),
        ("SDIFFSTORE s b b", ":0\r\n"),
        ("SPOP none", "$-1\r\n"),
        ("SPOP none 3", "*0\r\n"),
        ("SPOP a 0", "*0\r\n"),
        ("SRANDMEMBER none", "$-1\r\n"),
        ("SRANDMEMBER none -3", "*0\r\n"),
        ("SSCAN b 7 COUNT 1", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\ny\r\n$1\r\nz\r\n"),
        ("SSCAN a 0 MATCH * match [a-x]", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nx\r\n"),
        ("SSCAN none 0 BOGUS", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ] {
        assert_eq!(run(&mut keys(), command), answer, "{command}");
    }
}

#[test]
fn errors_come_in_the_servers_order_and_change_nothing() {
    let positive = "-ERR value is out of range, must be positive\r\n";
    let integer = "-ERR value is not an integer or out of range\r\n";
    let syntax = "-ERR syntax error\r\n";
    for (command, error) in [
        ("SADD s x", WRONG_TYPE),
        ("SREM l x", WRONG_TYPE),
        ("SCARD s", WRONG_TYPE),
        ("SISMEMBER s x", WRONG_TYPE),
        ("SMISMEMBER s x", WRONG_TYPE),
        ("SMEMBERS s", WRONG_TYPE),
        ("SMOVE a s q", WRONG_TYPE),
        ("SMOVE s a x", WRONG_TYPE),
        ("SMOVE s s x", WRONG_TYPE),
        ("SINTER none s", WRONG_TYPE),
        ("SUNION a s", WRONG_TYPE),
        ("SDIFF none s", WRONG_TYPE),
        ("SINTERSTORE a none s", WRONG_TYPE),
        ("SUNIONSTORE a a s", WRONG_TYPE),
        ("SDIFFSTORE a none s", WRONG_TYPE),
        ("SINTERCARD 0 s", "-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD x s", "-ERR numkeys should be greater than 0\r\n"),
        ("SINTERCARD 3 s LIMIT", "-ERR Number of keys can't be greater than number of args\r\n"),
        ("SINTERCARD 1 s LIMIT -1 X", "-ERR LIMIT can't be negative\r\n"),
        ("SINTERCARD 1 s LIMIT", syntax),
        ("SINTERCARD 1 s LIMIT 1", WRONG_TYPE),
        ("SPOP s 1 2", syntax),
        ("SPOP s -1", positive),
        ("SPOP s x", positive),
        ("SPOP s 0", WRONG_TYPE),
        ("SPOP s", WRONG_TYPE),
        ("SRANDMEMBER s 1 2", syntax),
        ("SRANDMEMBER s x", integer),
        (
            "SRANDMEMBER s -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807\r\n",
        ),
        ("SRANDMEMBER s 0", WRONG_TYPE),
        ("SRANDMEMBER s", WRONG_TYPE),
        (
            "SRANDMEMBER a -9223372036854775807",
            "-ERR keyfold: SRANDMEMBER of so many members is not supported on folded keys\r\n",
        ),
        ("SSCAN s x", "-ERR invalid cursor\r\n"),
        ("SSCAN s 0 COUNT x", WRONG_TYPE),
        ("SSCAN a 0 COUNT x", integer),
        ("SSCAN a 0 COUNT 0", syntax),
        ("SSCAN a 0 MATCH", syntax),
        ("SSCAN a 0 TYPE set", syntax),
        ("SSCAN a 0 NOVALUES", syntax),
    ] {
        let mut keys = keys();
        assert_eq!(run(&mut keys, command), error, "{command}");
        assert!(keys.changed().is_empty(), "{command}");
    }
    let mut later = keys().behind("redis", "8.0.6", false);
    assert_eq!(run(&mut later, "SSCAN a 0 NOVALUES"), "-ERR NOVALUES option can only be used in HSCAN\r\n");
}

#[test]
fn resp3_has_sets() {
    for (command, head) in [
        ("SMEMBERS a", "~3\r\n"),
        ("SMEMBERS none", "~0\r\n"),
        ("SUNION a b", "~4\r\n"),
        ("SINTER a b", "~1\r\n"),
        ("SINTER a none", "~0\r\n"),
        ("SDIFF a b", "~2\r\n"),
        ("SPOP a 2", "~2\r\n"),
        ("SPOP none 2", "~0\r\n"),
        ("SPOP none", "_\r\n"),
        ("SRANDMEMBER none", "_\r\n"),
        ("SRANDMEMBER a 2", "*2\r\n"),
        ("SRANDMEMBER none 2", "*0\r\n"),
        ("SMISMEMBER a 2", "*1\r\n"),
        ("SSCAN a 0", "*2\r\n$1\r\n0\r\n*3\r\n"),
    ] {
        let answer = keys().run_in(Protocol::Resp3, &command.split(' ').collect::<Vec<_>>());
        assert!(answer.starts_with(head), "{command}: {answer}");
    }
}

#[test]
fn events_are_those_of_redis_in_its_order() {
    for (command, events) in [
        ("SADD a w x", &["sadd a"][..]),
        ("SADD a x", &[]),
        ("SADD none w", &["new none", "sadd none"]),
        ("SREM a x", &["srem a"]),
        ("SREM a q", &[]),
        ("SREM a x y 1", &["srem a", "del a"]),
        ("SMOVE a b x", &["srem a", "sadd b"]),
        ("SMOVE a b y", &["srem a"]),
        ("SMOVE one none x", &["srem one", "del one", "new none", "sadd none"]),
        ("SMOVE a a x", &[]),
        ("SPOP a", &["spop a"]),
        ("SPOP one", &["spop one", "del one"]),
        ("SPOP a 9", &["spop a", "del a"]),
        ("SPOP a 0", &[]),
        ("SRANDMEMBER a 2", &[]),
        ("SINTERSTORE a a b", &["sinterstore a"]),
        ("SINTERSTORE a a none", &["del a"]),
        ("SINTERSTORE none a none", &[]),
        ("SUNIONSTORE none a b", &["new none", "sunionstore none"]),
        ("SDIFFSTORE l a b", &["sdiffstore l"]),
        ("SDIFFSTORE s a a", &["del s"]),
    ] {
        let mut keys = keys().noting_events();
        keys.set("one", &["x"]);
        run(&mut keys, command);
        assert_eq!(keys.events(), events, "{command}");
        assert_eq!(keys.changed().is_empty(), events.is_empty(), "{command}");
    }
}

#[test]
fn an_expiry_stays_with_its_set_and_goes_where_another_is_stored() {
    for (command, left_ms) in [
        ("SADD b q", ":4000\r\n"),
        ("SREM b y", ":4000\r\n"),
        ("SPOP b", ":4000\r\n"),
        ("SMOVE a b x", ":4000\r\n"),
        ("SUNIONSTORE b b", ":-1\r\n"),
        ("SPOP b 2", ":-2\r\n"),
    ] {
        let mut keys = keys();
        run(&mut keys, command);
        assert_eq!(run(&mut keys, "PTTL b"), left_ms, "{command}");
    }
    let mut keys = keys();
    keys.set_until("b", &["y"], Some(999));
    assert_eq!(run(&mut keys, "SADD b q"), ":1\r\n");
    assert_eq!(run(&mut keys, "SMEMBERS b"), "*1\r\n$1\r\nq\r\n");
    assert_eq!(run(&mut keys, "PTTL b"), ":-1\r\n");
}

/// The bulk strings of an answer.
fn bulks(answer: &str) -> Vec<String> {
    let lines: Vec<&str> = answer.split("\r\n").collect();
    lines.windows(2).filter(|pair| pair[0].starts_with('$')).map(|pair| pair[1].to_owned()).collect()
}

#[test]
fn what_is_drawn_was_there_and_is_drawn_once() {
    for seed in 0..200 {
        let mut keys = keys().seeded(seed);
        let mut two = bulks(&run(&mut keys, "SRANDMEMBER a 2"));
        two.sort();
        two.dedup();
        assert_eq!(two.len(), 2);
        assert_eq!(bulks(&run(&mut keys, "SRANDMEMBER a 9")).len(), 3);
        let many = bulks(&run(&mut keys, "SRANDMEMBER a -9"));
        assert!(many.len() == 9 && many.iter().all(|member| ["x", "y", "1"].contains(&member.as_str())));
        let mut all = bulks(&run(&mut keys, "SPOP a 2"));
        assert_eq!(run(&mut keys, "SCARD a"), ":1\r\n");
        all.extend(bulks(&run(&mut keys, "SPOP a")));
        all.sort();
        assert_eq!(all, ["1", "x", "y"]);
        assert_eq!(run(&mut keys, "EXISTS a"), ":0\r\n");
    }
}

/// How often each answer came, against all coming equally often: chi-square is near the number of answers, and beyond twice
/// that, and 30, by far less than one chance in a million.
fn assert_even(what: &str, counts: &BTreeMap<String, u32>, answers: usize) {
    assert_eq!(counts.len(), answers, "{what}: not all came");
    let sum: u32 = counts.values().sum();
    let expected = f64::from(sum) / f64::from(u32::try_from(answers).unwrap());
    let chi_square: f64 = counts.values().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    assert!(chi_square < 2.0 * f64::from(u32::try_from(answers).unwrap()) + 30.0, "{what}: {chi_square}");
}

#[test]
fn every_member_and_every_order_has_the_same_chance() {
    let members = ["a", "b", "c", "d", "e", "f", "g"];
    for (command, answers) in [
        ("SPOP k", 7),
        ("SPOP k 1", 7),
        ("SPOP k 2", 42),
        ("SPOP k 6", 5040),
        ("SRANDMEMBER k", 7),
        ("SRANDMEMBER k 2", 42),
        ("SRANDMEMBER k 7", 5040),
        ("SRANDMEMBER k -2", 49),
    ] {
        let mut counts = BTreeMap::new();
        let rounds = if answers > 1000 { 60_000 } else { 20_000 };
        for seed in 0..rounds {
            let mut keys = now_is(1000).seeded(seed);
            keys.set("k", &members);
            *counts.entry(bulks(&run(&mut keys, command)).concat()).or_default() += 1;
        }
        assert_even(command, &counts, answers);
    }
    // One space draws on from where it was.
    let mut counts = BTreeMap::new();
    let mut keys = now_is(1000).seeded(1);
    keys.set("k", &members);
    for _ in 0..20_000 {
        *counts.entry(bulks(&run(&mut keys, "SRANDMEMBER k")).concat()).or_default() += 1;
    }
    assert_even("one after the other", &counts, 7);
}
