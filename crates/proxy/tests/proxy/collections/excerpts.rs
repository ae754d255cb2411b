//! Some members of large sets and hashes, which lie in parts: by chance, or by a walk.

use std::collections::{BTreeMap, BTreeSet};

use keyfold_testkit::random::Random;
use keyfold_testkit::{Value, Wire};

use super::on_every_server;
use crate::stage::call;

/// Members of all classes: integers, texts, and some that no part packs.
fn member(number: u64) -> String {
    match number % 100 {
        0..40 => number.to_string(),
        40..99 => format!("text-{number}"),
        _ => format!("{number:0>90}"),
    }
}

/// Adds or removes members with these numbers.
fn change(
    client: &mut Wire,
    command: &str,
    numbers: impl IntoIterator<Item = u64>,
    value: impl Fn(u64) -> Option<String>,
) {
    let words: Vec<String> =
        numbers.into_iter().flat_map(|number| [Some(member(number)), value(number)]).flatten().collect();
    for some in words.chunks(200) {
        call(client, &format!("{command} {}", some.join(" ")));
    }
}

fn fill(client: &mut Wire, count: u64) {
    change(client, "SADD tags:1", 0..count, |_| None);
    change(client, "HSET sess:1", 0..count, |number| Some(format!("v{number}")));
}

fn texts(wire: &mut Wire, command: &str) -> Vec<String> {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    strings(&wire.ask(&words).unwrap())
}

fn strings(value: &Value) -> Vec<String> {
    let texts = value.elements().unwrap_or_else(|| panic!("{value:?}"));
    texts.iter().map(|text| String::from_utf8(text.bytes().unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn each_member_is_drawn_as_often_as_any_other() {
    const MEMBERS: u64 = 1000;
    const TIMES: usize = 50;
    on_every_server(|server, client, _| {
        fill(client, MEMBERS);
        for draw in ["SRANDMEMBER tags:1 -1000", "HRANDFIELD sess:1 -1000"] {
            let mut counts: BTreeMap<String, usize> = (0..MEMBERS).map(|number| (member(number), 0)).collect();
            for _ in 0..TIMES {
                for text in texts(client, draw) {
                    *counts.get_mut(&text).unwrap() += 1;
                }
            }
            // Chi-square of 999 degrees of freedom: 999 in the mean, with a deviation of 44.7; a bias of a tenth would make 500 more.
            let square: f64 = counts.values().map(|count| (*count as f64 - TIMES as f64).powi(2) / TIMES as f64).sum();
            assert!((775.0..1225.0).contains(&square), "{draw} on {}: {square}", server.name());
        }
    });
}

#[test]
fn members_are_drawn_and_taken_as_asked_for() {
    on_every_server(|_, client, other| {
        fill(client, 800);
        let all: BTreeSet<String> = (0..800).map(member).collect();
        let one = call(client, "SRANDMEMBER tags:1");
        assert!(all.contains(one.split("\r\n").nth(1).unwrap()), "{one}");
        for (draw, count) in [
            ("SRANDMEMBER tags:1 7", 7),
            ("SRANDMEMBER tags:1 390", 390),
            ("SRANDMEMBER tags:1 799", 799),
            ("SRANDMEMBER tags:1 9000", 800),
            ("HRANDFIELD sess:1 300", 300),
            ("SRANDMEMBER tags:1 0", 0),
        ] {
            let drawn = texts(client, draw);
            let different: BTreeSet<String> = drawn.iter().cloned().collect();
            assert_eq!((drawn.len(), different.len()), (count, count), "{draw}");
            assert!(different.is_subset(&all), "{draw}");
        }
        for pair in texts(client, "HRANDFIELD sess:1 20 WITHVALUES").chunks(2) {
            assert_eq!(
                call(client, &format!("HGET sess:1 {}", pair[0])),
                format!("${}\r\n{}\r\n", pair[1].len(), pair[1])
            );
        }
        call(other, "HELLO 3");
        assert!(call(other, "HRANDFIELD sess:1 2 WITHVALUES").starts_with("*2\r\n*2\r\n$"));
        for (wrong, said) in [
            ("SPOP tags:1 -1", "-ERR value is out of range, must be positive\r\n"),
            ("SRANDMEMBER tags:1 x", "-ERR value is not an integer or out of range\r\n"),
            ("HRANDFIELD sess:1 1 NO", "-ERR syntax error\r\n"),
            ("SSCAN tags:1 x", "-ERR invalid cursor\r\n"),
            ("HSCAN sess:1 0 COUNT 0", "-ERR syntax error\r\n"),
            ("SPOP sess:1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ] {
            assert_eq!(call(client, wrong), said, "{wrong}");
        }
        // Until none is left, and each once.
        let (mut taken, mut turn) = (Vec::new(), 0);
        while taken.len() < 800 {
            match turn % 3 {
                0 => taken.push(call(client, "SPOP tags:1").split("\r\n").nth(1).unwrap().to_owned()),
                _ => taken.extend(texts(client, &format!("SPOP tags:1 {}", turn % 40 + 1))),
            }
            turn += 1;
            assert_eq!(call(client, "SCARD tags:1"), format!(":{}\r\n", 800 - taken.len()));
        }
        assert_eq!((taken.len(), taken.into_iter().collect::<BTreeSet<_>>()), (800, all));
        assert_eq!(call(client, "EXISTS tags:1"), ":0\r\n");
    });
}

/// A walk over the whole; what came, and how many steps it took.
fn walk(
    client: &mut Wire,
    command: &str,
    options: &str,
    mut between: impl FnMut(&mut Wire, u64),
) -> (Vec<String>, u64) {
    let (mut found, mut cursor, mut steps) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let reply = client
            .ask(&format!("{command} {cursor} {options}").split_whitespace().map(str::as_bytes).collect::<Vec<_>>());
        let reply = reply.unwrap();
        let [next, some] = reply.elements().unwrap() else { panic!("{reply:?}") };
        found.extend(strings(some));
        cursor = String::from_utf8(next.bytes().unwrap().to_vec()).unwrap();
        steps += 1;
        if cursor == "0" {
            return (found, steps);
        }
        between(client, steps);
    }
}

#[test]
fn walks_come_by_each_member_once_where_nothing_changes() {
    on_every_server(|_, client, _| {
        fill(client, 3000);
        let all: BTreeSet<String> = (0..3000).map(member).collect();
        for (command, options, step) in
            [("SSCAN tags:1", "COUNT 100", 1), ("HSCAN sess:1", "COUNT 100", 2), ("SSCAN tags:1", "COUNT 5000", 1)]
        {
            let (found, steps) = walk(client, command, options, |_, _| {});
            assert!(found.len() == 3000 * step && (3..=30).contains(&steps), "{command}: {} in {steps}", found.len());
            assert_eq!(found.iter().step_by(step).cloned().collect::<BTreeSet<_>>(), all, "{command}");
        }
        let (found, _) = walk(client, "SSCAN tags:1", "MATCH text-5*", |_, _| {});
        let wanted: BTreeSet<String> = all.into_iter().filter(|member| member.starts_with("text-5")).collect();
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
        // From a cursor that a server gave, which had it in a table of its own, a walk begins anew.
        let (whole, from_theirs) =
            (call(client, "SSCAN tags:1 0 COUNT 50"), call(client, "SSCAN tags:1 1536 COUNT 50"));
        assert_eq!(whole, from_theirs);
    });
}

#[test]
fn walks_miss_nothing_that_stays_while_parts_are_halved_and_joined() {
    on_every_server(|server, client, _| {
        let mut random = Random::new(5);
        for grows in [true, false] {
            let (few, many) = (1500, 9000);
            fill(client, if grows { few } else { many });
            // Those that stay change their class, too, by what the field holds.
            let mut between = |client: &mut Wire, turn: u64| {
                let at = few + turn * 300;
                if grows {
                    change(client, "SADD tags:1", at..at + 300, |_| None);
                    change(client, "HSET sess:1", at..at + 300, |_| Some("new".to_owned()));
                } else {
                    change(client, "SREM tags:1", at..at + 300, |_| None);
                    change(client, "HDEL sess:1", at..at + 300, |_| None);
                }
                let some: Vec<u64> = (0..20).map(|_| random.below(few)).collect();
                let is_long = turn.is_multiple_of(2);
                change(client, "HSET sess:1", some, |_| Some("x".repeat(if is_long { 80 } else { 3 })));
            };
            for (command, step) in [("SSCAN tags:1", 1), ("HSCAN sess:1", 2)] {
                let (found, steps) = walk(client, command, "COUNT 30", &mut between);
                let found: BTreeSet<String> = found.into_iter().step_by(step).collect();
                let missed: Vec<String> = (0..few).map(member).filter(|member| !found.contains(member)).collect();
                assert!(missed.is_empty(), "{command} on {}: {missed:?}", server.name());
                assert!(steps > 5, "{steps}");
            }
            call(client, "DEL tags:1 sess:1");
        }
    });
}
