//! Large sets and hashes, which lie in parts: they answer as one, and each member lies where its hash and the directory say, in a part
//! that the server packs, however they grow and shrink.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use keyfold_core::collection::parts::{Class, Directory, Header, Limits, class_of, hash_of};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, LayoutFile, Place};
use keyfold_core::placement::name::PartName;
use keyfold_core::record::part_name;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Value, Wire, found};

use super::{LAYOUT, talk};
use crate::stage::{address, call, change_layout, commands, config_for, eventually, proxy_before, serve};

/// What a key's field points to.
struct InParts {
    nonce: u64,
    header: Header,
    place: Place,
}

fn in_parts(direct: &mut Wire, key: &str) -> Option<InParts> {
    let layout = Layout::parse_file(LAYOUT).unwrap();
    let place = layout.locate(key.as_bytes()).place().unwrap();
    let stored = direct.ask(&[b"HGET", &place.physical, &place.field]).unwrap();
    let Body::Parts { nonce, header } = Frame::decode(stored.bytes()?).unwrap().body else { return None };
    Some(InParts { nonce, header: Header::decode(header).unwrap(), place })
}

impl InParts {
    fn name(&self, name: PartName) -> Vec<u8> {
        part_name(self.place.origin, self.nonce, name)
    }

    fn text(&self, name: PartName) -> String {
        String::from_utf8(self.name(name)).unwrap()
    }

    /// Looks at all parts: each member is in its own, none is too full, and all are counted and packed.
    fn check(&self, direct: &mut Wire, key: &str) {
        let Limits { longest, integers, texts } = Limits::DEFAULT;
        assert_eq!(direct.ask(&[b"GET", &self.name(PartName::Owner)]).unwrap().bytes(), Some(key.as_bytes()));
        for (class, size) in Class::ALL.into_iter().zip(self.header.classes) {
            let stored = direct.ask(&[b"GET", &self.name(PartName::Directory(class))]).unwrap();
            if size.count == 0 {
                assert!(stored.bytes().is_none(), "{key}: a directory of nothing");
                continue;
            }
            let directory = Directory::read(stored.bytes().unwrap()).unwrap();
            assert_eq!(directory.depth(), size.depth, "{key}");
            let (mut count, is_set) = (0, self.header.form.is_in_sets(class));
            for part in directory.parts() {
                let name = self.name(PartName::Part(class, part));
                let found = direct.ask(&[if is_set { b"SMEMBERS" } else { b"HGETALL" }, &name]).unwrap();
                let found: Vec<&[u8]> = found.elements().unwrap().iter().filter_map(Value::bytes).collect();
                let is_of_pairs = !is_set && key.starts_with("sess");
                let step = if is_set { 1 } else { 2 };
                for member in found.chunks(step) {
                    let value = is_of_pairs.then(|| member[1]);
                    assert_eq!(class_of(member[0], value, longest), class, "{key} {}", member[0].escape_ascii());
                    assert_eq!(directory.part_of(hash_of(self.header.seed, member[0])), part, "{key}");
                }
                let most = if class == Class::Integers { integers } else { texts };
                assert!(found.len() / step <= most, "{key}: {} in a part", found.len() / step);
                count += (found.len() / step) as u64;
                if class != Class::Outliers && !found.is_empty() {
                    let encoding = direct.ask(&[b"OBJECT", b"ENCODING", &name]).unwrap();
                    assert!(
                        matches!(encoding.bytes(), Some(b"intset" | b"listpack" | b"ziplist")),
                        "{key}: {encoding:?}"
                    );
                }
            }
            assert_eq!(count, size.count, "{key}");
        }
    }
}

/// A member by chance: integers, texts, and one in thirty that no part packs.
fn member(random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 => format!("{:080}x", random.below(100)).into_bytes(),
        1..12 => random.below(4000).to_string().into_bytes(),
        _ => format!("m\0{}", random.below(2500)).into_bytes(),
    }
}

/// A command on a set and a hash, which grow where `grows`.
fn command(random: &mut Random, grows: bool) -> Vec<Vec<u8>> {
    let is_set = random.chance(50);
    let adds = random.chance(if grows { 75 } else { 15 });
    let count = *random.pick(&[1, 1, 2, 20]);
    let (name, many): (&str, u64) = match (is_set, random.below(10), adds) {
        (true, 0, _) => ("SMISMEMBER", count),
        (true, 1, _) => ("SISMEMBER", 1),
        (true, 2, _) => ("SCARD", 0),
        (true, _, true) => ("SADD", count),
        (true, _, false) => ("SREM", count * 2),
        (false, 0, _) => ("HMGET", count),
        (false, 1, _) => (*random.pick(&["HGET", "HEXISTS", "HSTRLEN"]), 1),
        (false, 2, _) => ("HLEN", 0),
        (false, 3, _) => (*random.pick(&["HSETNX", "HINCRBY", "HINCRBYFLOAT"]), 1),
        (false, _, true) => ("HSET", count),
        (false, _, false) => ("HDEL", count * 2),
    };
    let mut words = vec![name.as_bytes().to_vec(), if is_set { b"tags:1".to_vec() } else { b"sess:1".to_vec() }];
    for _ in 0..many {
        words.push(member(random));
        if matches!(name, "HSET" | "HSETNX") {
            words.push(member(random));
        }
    }
    match name {
        "HINCRBY" => words.push(random.below(1000).to_string().into_bytes()),
        "HINCRBYFLOAT" => words.push(b"0.5".to_vec()),
        _ => {}
    }
    words
}

fn send(wire: &mut Wire, words: &[Vec<u8>]) -> Vec<u8> {
    wire.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
}

fn members(wire: &mut Wire, command: &str) -> BTreeSet<Vec<u8>> {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let found = wire.ask(&words).unwrap();
    let texts: Vec<Vec<u8>> = found.elements().unwrap().iter().filter_map(Value::bytes).map(<[u8]>::to_vec).collect();
    match command.starts_with("HGETALL") {
        true => texts.chunks(2).map(|pair| pair.join(&b'=')).collect(),
        false => texts.into_iter().collect(),
    }
}

fn on_every_server(body: impl Fn(&Server, &mut Wire)) {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        body(&server, &mut Wire::connect(address(&proxy)).unwrap());
    }
}

#[test]
fn they_grow_and_shrink_as_one_and_no_part_is_too_full() {
    for (seed, binary) in (1..).zip(found()) {
        let plain = binary.start(&[]).unwrap();
        let mut plain = plain.connect().unwrap();
        on_this(&binary.start(&[]).unwrap(), |direct, client| {
            let mut random = Random::new(seed);
            for round in 0..8_u64 {
                for _ in 0..500 {
                    let words = command(&mut random, round % 4 < 2);
                    let (told, answer) = (send(&mut plain, &words), send(client, &words));
                    assert_eq!(told.escape_ascii().to_string(), answer.escape_ascii().to_string(), "{words:?}");
                }
                for (key, all) in [("tags:1", "SMEMBERS tags:1"), ("sess:1", "HGETALL sess:1")] {
                    assert!(members(&mut plain, all) == members(client, all), "{key} after {round} rounds");
                    let found = in_parts(direct, key);
                    assert!(found.is_some() || round % 4 > 1, "{key} is in parts");
                    found.into_iter().for_each(|found| found.check(direct, key));
                }
            }
            // And all are gone in the end, with their directories.
            for (remove, all) in [("SREM tags:1", "SMEMBERS tags:1"), ("HDEL sess:1", "HKEYS sess:1")] {
                let all: Vec<_> = members(&mut plain, all).into_iter().collect();
                for some in all.chunks(50) {
                    let words: Vec<Vec<u8>> =
                        remove.split(' ').map(|word| word.into()).chain(some.iter().cloned()).collect();
                    assert_eq!(send(client, &words), format!(":{}\r\n", some.len()).into_bytes());
                }
            }
            assert_eq!(call(client, "EXISTS tags:1 sess:1"), ":0\r\n");
            eventually("nothing is left of them", || !call(direct, "KEYS ~*").contains('|'));
        });
    }
}

fn on_this(server: &Server, body: impl FnOnce(&mut Wire, &mut Wire)) {
    let proxy = proxy_before(server, LAYOUT);
    body(&mut server.connect().unwrap(), &mut Wire::connect(address(&proxy)).unwrap());
}

fn fill(client: &mut Wire) {
    for from in (0..1000).step_by(100) {
        let texts: Vec<String> = (from..from + 100).map(|i| format!("t{i}")).collect();
        let pairs: Vec<String> = texts.iter().map(|text| format!("{text} v-{text}")).collect();
        assert_eq!(call(client, &format!("SADD tags:1 {}", texts.join(" "))), ":100\r\n");
        assert_eq!(call(client, &format!("HSET sess:1 {}", pairs.join(" "))), ":100\r\n");
    }
}

#[test]
fn whole_ones_are_renamed_copied_joined_and_expire() {
    on_every_server(|server, client| {
        let mut direct = server.connect().unwrap();
        fill(client);
        assert!(in_parts(&mut direct, "tags:1").is_some() && in_parts(&mut direct, "sess:1").is_some());
        talk(
            client,
            &[
                ("TYPE tags:1", "+set"),
                ("TYPE sess:1", "+hash"),
                ("EXPIRE tags:1 1000", ":1"),
                ("TTL tags:1", ":1000"),
                ("SADD tags:1 one-more", ":1"),
                ("TTL tags:1", ":1000"),
                ("RENAME tags:1 tags:2", "+OK"),
                ("EXISTS tags:1", ":0"),
                ("SCARD tags:2", ":1001"),
                ("SISMEMBER tags:2 t999", ":1"),
                ("TTL tags:2", ":1000"),
                ("PERSIST tags:2", ":1"),
                ("TTL tags:2", ":-1"),
                ("COPY tags:2 tags:1", ":1"),
                ("SREM tags:1 t0 t1 t1000", ":2"),
                ("SDIFF tags:2 tags:1", "*2 t0 t1"),
                ("SINTERCARD 2 tags:2 tags:1", ":999"),
                ("SUNIONSTORE plain tags:1 tags:2", ":1001"),
                ("SCARD plain", ":1001"),
                ("SMOVE tags:2 tags:1 t0", ":1"),
                ("SCARD tags:1", ":1000"),
                ("HINCRBY sess:1 count 5", ":5"),
                ("HINCRBY sess:1 t1 5", "-ERR hash value is not an integer"),
                ("HLEN sess:1", ":1001"),
                ("GET tags:1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("HGET tags:1 f", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("SADD sess:1 f", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("WATCH tags:1", "+OK"),
                ("MULTI", "+OK"),
                ("SADD tags:1 two-more", "+QUEUED"),
                ("SCARD tags:1", "+QUEUED"),
                ("HDEL sess:1 t0", "+QUEUED"),
                ("EXEC", "*3 :1 :1001 :1"),
                ("HEXPIRE sess:1 100 FIELDS 1 t1", "*1 :1"),
                ("HTTL sess:1 FIELDS 2 t1 t2", "*2 :100 :-1"),
                ("HLEN sess:1", ":1000"),
                ("DBSIZE", ":4"),
                ("DEL sess:1 tags:1", ":2"),
                ("EXISTS sess:1 tags:1", ":0"),
                ("PEXPIRE tags:2 1", ":1"),
            ],
        );
        eventually("it expires", || call(client, "EXISTS tags:2") == ":0\r\n");
        assert_eq!(call(client, "SADD tags:2 anew"), ":1\r\n");
        assert_eq!(call(client, "SCARD tags:2"), ":1\r\n");
        eventually("nothing is left of them", || !call(&mut direct, "KEYS ~*").contains('|'));
    });
}

#[test]
fn all_members_are_listed_in_both_protocols() {
    on_every_server(|server, client| {
        fill(client);
        for (hello, set, map) in [("HELLO 2", "*1000\r\n", "*2000\r\n"), ("HELLO 3", "~1000\r\n", "%1000\r\n")] {
            call(client, hello);
            for (command, head) in [("SMEMBERS tags:1", set), ("HGETALL sess:1", map), ("HVALS sess:1", "*1000\r\n")] {
                let said = call(client, command);
                assert!(said.starts_with(head), "{command} on {}: {}", server.name(), &said[..said.len().min(20)]);
            }
            let mut list = |command: &str| -> Vec<String> {
                let said = call(client, command);
                said.split("\r\n")
                    .skip(1)
                    .filter(|line| !line.is_empty() && !line.starts_with('$'))
                    .map(str::to_owned)
                    .collect()
            };
            let (names, values) = (list("HKEYS sess:1"), list("HVALS sess:1"));
            let pairs: Vec<String> =
                names.iter().zip(&values).flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
            assert_eq!((names.len(), values.len()), (1000, 1000));
            assert!(names.iter().zip(&values).all(|(name, value)| *value == format!("v-{name}")));
            assert_eq!(list("HGETALL sess:1"), pairs);
            let members: BTreeSet<String> = list("SMEMBERS tags:1").into_iter().collect();
            assert_eq!(members, (0..1000).map(|i| format!("t{i}")).collect());
        }
        for wrong in ["SMEMBERS sess:1", "HGETALL tags:1", "HKEYS tags:1", "HVALS tags:1"] {
            assert!(call(client, wrong).starts_with("-WRONGTYPE "), "{wrong}");
        }
    });
}

/// So long that it goes out while it is received: as a plain server's, whatever stands before it and behind it.
#[test]
fn a_long_list_is_a_servers_in_both_protocols() {
    on_every_server(|server, client| {
        let mut direct = server.connect().unwrap();
        let all: Vec<String> = (0..20_000).map(|number| format!("member-{number}")).collect();
        for some in all.chunks(500) {
            for (request, values) in [("SADD tags:1 ", " "), ("HSET sess:1 ", " value ")] {
                let words = some.join(values);
                let last = if values == " " { "" } else { " value" };
                call(client, &format!("{request}{words}{last}"));
                call(&mut direct, &format!("{}{words}{last}", request.replace(":1", ":plain")));
            }
        }
        for hello in ["HELLO 2", "HELLO 3"] {
            call(client, hello);
            call(&mut direct, hello);
            for command in ["SMEMBERS tags", "HGETALL sess", "HKEYS sess", "HVALS sess"] {
                let asked = |key: &str| {
                    commands(&["PING", &format!("{command}:{key}"), "ECHO behind", &format!("{command}:{key}")])
                };
                let lines = |wire: &mut Wire, key: &str| {
                    wire.send_bytes(&asked(key)).unwrap();
                    let said = [(); 4].map(|()| String::from_utf8(wire.reply().unwrap()).unwrap());
                    assert!(said[1] == said[3] && said[1].len() > 100_000, "{command} on {}", server.name());
                    assert_eq!([&said[0][..], &said[2][..]], ["+PONG\r\n", "$6\r\nbehind\r\n"]);
                    let (head, texts) = said[1].split_once("\r\n").unwrap();
                    let lines: Vec<&str> = texts.split("\r\n").filter(|line| !line.starts_with('$')).collect();
                    let step = if command == "HGETALL sess" { 2 } else { 1 };
                    let mut texts: Vec<Vec<String>> =
                        lines.chunks(step).map(|texts| texts.iter().map(|text| (*text).to_owned()).collect()).collect();
                    texts.sort_unstable();
                    (head.to_owned(), texts)
                };
                let (found, expected) = (lines(client, "1"), lines(&mut direct, "plain"));
                assert_eq!(found.0, expected.0, "{command} on {}", server.name());
                assert!(found.1 == expected.1, "{command} on {}", server.name());
            }
        }
        call(client, "HELLO 2");
        assert!(in_parts(&mut direct, "tags:1").is_some() && in_parts(&mut direct, "sess:1").is_some());
    });
}

/// As a plain server tells it; and they stay in the parts in which they are.
#[test]
fn subscribers_hear_what_is_done_to_single_members() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        call(&mut server.connect().unwrap(), "CONFIG SET notify-keyspace-events KEshg");
        let proxy = proxy_before(&server, LAYOUT);
        let [mut client, mut listener] = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
        let mut direct = server.connect().unwrap();
        fill(&mut client);
        let all: Vec<String> = (0..1000).flat_map(|number| [format!("t{number}"), format!("v-t{number}")]).collect();
        call(&mut direct, &format!("SADD plain:set {}", all.iter().step_by(2).cloned().collect::<Vec<_>>().join(" ")));
        call(&mut direct, &format!("HSET plain:hash {}", all.join(" ")));
        call(&mut listener, "PSUBSCRIBE __key*");
        std::thread::sleep(Duration::from_millis(1500));
        let nonces = |direct: &mut Wire| ["tags:1", "sess:1"].map(|key| in_parts(direct, key).unwrap().nonce);
        let before = nonces(&mut direct);
        let (mut heard, mut expected) = (Vec::new(), Vec::new());
        let mut hear = |told: &mut Vec<String>| {
            // What comes behind it, for all.
            call(&mut direct, "PUBLISH __keyend x");
            loop {
                let message = String::from_utf8(listener.reply().unwrap()).unwrap();
                let words: Vec<&str> = message.split("\r\n").collect();
                if words[6] == "__keyend" {
                    break;
                }
                told.push(
                    format!("{} {}", words[6], words[8]).replace("plain:set", "tags:1").replace("plain:hash", "sess:1"),
                );
            }
        };
        for line in [
            "SADD <set> new t1",
            "SADD <set> t1 t2",
            "SREM <set> t1 t2 none",
            "SREM <set> none",
            "SISMEMBER <set> t3",
            "SPOP <set>",
            "SPOP <set> 3",
            "SRANDMEMBER <set> 2",
            "HSET <hash> t1 x",
            "HSETNX <hash> t1 y",
            "HSETNX <hash> other y",
            "HMSET <hash> t2 x t3 y",
            "HDEL <hash> t2 none",
            "HDEL <hash> none",
            "HINCRBY <hash> count 2",
            "HINCRBY <hash> t9 2",
            "HINCRBYFLOAT <hash> count 0.5",
            "HGET <hash> count",
            "EXPIRE <hash> 1000",
        ] {
            let asked = |set: &str, hash: &str| line.replace("<set>", set).replace("<hash>", hash);
            call(&mut client, &asked("tags:1", "sess:1"));
            hear(&mut heard);
            call(&mut client, &asked("plain:set", "plain:hash"));
            hear(&mut expected);
            assert_eq!(heard, expected, "{line} on {}", server.name());
        }
        assert!(heard.len() > 20, "{heard:?}");
        assert_eq!(nonces(&mut direct), before, "all of it was written anew on {}", server.name());
    }
}

#[test]
fn a_watched_one_that_another_client_changes_isn_t_written() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxy = proxy_before(&server, LAYOUT);
    let [mut client, mut other] = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
    fill(&mut client);
    for change in ["SADD tags:1 new", "SREM tags:1 new", "SADD tags:1 x y z"] {
        talk(&mut client, &[("WATCH tags:1", "+OK"), ("MULTI", "+OK"), ("SADD tags:1 mine", "+QUEUED")]);
        call(&mut other, change);
        talk(&mut client, &[("EXEC", "*-1"), ("SISMEMBER tags:1 mine", ":0")]);
    }
    talk(&mut client, &[("WATCH tags:1", "+OK"), ("MULTI", "+OK"), ("SADD tags:1 mine", "+QUEUED")]);
    talk(&mut other, &[("SADD tags:1 t5", ":0"), ("SISMEMBER tags:1 t5", ":1")]);
    talk(&mut client, &[("EXEC", "*1 :1")]);
}

#[test]
fn what_was_removed_past_keyfold_is_told_and_the_key_can_be_removed() {
    let server = found().remove(0).start(&[]).unwrap();
    on_this(&server, |direct, client| {
        fill(client);
        let found = in_parts(direct, "tags:1").unwrap();
        let stored = direct.ask(&[b"GET", &found.name(PartName::Directory(Class::Texts))]).unwrap();
        let part = Directory::read(stored.bytes().unwrap()).unwrap().parts().next().unwrap();
        assert_eq!(call(direct, &format!("DEL {}", found.text(PartName::Part(Class::Texts, part)))), ":1\r\n");
        let said = call(client, "SMEMBERS tags:1");
        assert!(
            said.starts_with("-ERR keyfold: key 'tags:1': ") && said.contains("its header counts 1000 members"),
            "{said}"
        );
        call(direct, &format!("DEL {}", found.text(PartName::Directory(Class::Texts))));
        for command in ["SMEMBERS tags:1", "SRANDMEMBER tags:1 9", "SSCAN tags:1 0"] {
            let said = call(client, command);
            assert!(
                said.starts_with("-ERR keyfold: key 'tags:1': ") && said.contains("directory of its parts"),
                "{said}"
            );
        }
        talk(
            client,
            &[("SCARD tags:1", ":1000"), ("DEL tags:1", ":1"), ("SADD tags:1 x", ":1"), ("SCARD tags:1", ":1")],
        );
    });
}

/// What a client reads is what was there when it asked, though the key was gone before its parts were read.
#[test]
fn what_is_asked_before_a_key_is_removed_or_replaced_is_answered_as_it_was() {
    on_every_server(|server, client| {
        for replace in ["DEL tags:1", "SUNIONSTORE tags:1 tags:2", "RENAME tags:1 tags:3", "SADD tags:1 t-new"] {
            fill(client);
            let asked = [
                "SADD tags:2 other",
                "SISMEMBER tags:1 t5",
                "SMEMBERS tags:1",
                "SMISMEMBER tags:1 t-new t6",
                replace,
                "SCARD tags:1",
            ];
            client.send_bytes(&commands(&asked)).unwrap();
            let replies: Vec<String> =
                asked.map(|_| String::from_utf8(client.reply().unwrap()).unwrap()).into_iter().collect();
            assert_eq!(replies[1], ":1\r\n", "{replace} on {}", server.name());
            assert!(replies[2].starts_with("*1000\r\n"), "{replace}: {}", replies[2]);
            assert_eq!(replies[3], "*2\r\n:0\r\n:1\r\n", "{replace} on {}", server.name());
            assert!([":0\r\n", ":1\r\n", ":1001\r\n"].contains(&replies[5].as_str()), "{replace}: {}", replies[5]);
            call(client, "DEL tags:1 tags:2 tags:3 sess:1");
        }
    });
}

/// Under another nonce, with each page of the walk.
#[test]
fn a_walk_goes_on_where_all_is_written_anew() {
    on_every_server(|server, client| {
        let mut direct = server.connect().unwrap();
        for key in ["tags:1", "sess:1"] {
            let all: Vec<String> = (0..3000).map(|number| format!("member-{number}")).collect();
            let (add, remove, walk) =
                if key == "tags:1" { ("SADD", "SREM", "SSCAN") } else { ("HSET", "HDEL", "HSCAN") };
            let value = if key == "tags:1" { "" } else { " x" };
            for some in all.chunks(500) {
                call(client, &format!("{add} {key} {}{value}", some.join(&format!("{value} "))));
            }
            let before = in_parts(&mut direct, key).unwrap();
            let (mut cursor, mut seen, mut pages) = (b"0".to_vec(), BTreeSet::new(), 0);
            loop {
                let reply = client.ask(&[walk.as_bytes(), key.as_bytes(), &cursor, b"COUNT", b"100"]).unwrap();
                let page = reply.elements().unwrap();
                seen.extend(page[1].elements().unwrap().iter().filter_map(Value::bytes).map(<[u8]>::to_vec));
                cursor = page[0].bytes().unwrap().to_vec();
                pages += 1;
                if cursor == b"0" {
                    break;
                }
                let change = if pages % 2 == 0 { remove.to_owned() } else { add.to_owned() };
                let value = if pages % 2 == 0 { "" } else { value };
                for line in ["MULTI", &format!("{change} {key} other{value}"), "EXEC"] {
                    call(client, line);
                }
            }
            let after = in_parts(&mut direct, key).unwrap();
            assert!(before.nonce != after.nonce && pages > 10, "{key}: {pages} pages on {}", server.name());
            let missed = all.iter().filter(|member| !seen.contains(member.as_bytes())).count();
            assert_eq!(missed, 0, "{key} on {}", server.name());
            after.check(&mut direct, key);
        }
    });
}

/// The sweep looks at them all the while.
#[test]
fn parts_go_with_their_key_wherever_that_is_renamed_to() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    config.sweep.pause = Duration::from_millis(1);
    let proxy = serve(&server, config);
    let (mut direct, mut client) = (server.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
    fill(&mut client);
    let nonce = |direct: &mut Wire, key: &str| in_parts(direct, key).map(|found| found.nonce);
    let before = nonce(&mut direct, "tags:1");
    assert!(before.is_some());
    let until = Instant::now() + Duration::from_secs(8);
    while Instant::now() < until {
        talk(
            &mut client,
            &[("RENAME tags:1 tags:900", "+OK"), ("RENAMENX tags:900 tags:1", ":1"), ("SCARD tags:1", ":1000")],
        );
    }
    assert_eq!(nonce(&mut direct, "tags:1"), before);
    talk(
        &mut client,
        &[
            ("EXPIRE tags:1 500", ":1"),
            ("SADD tags:2 other", ":1"),
            ("RENAME tags:1 tags:2", "+OK"),
            ("TTL tags:2", ":500"),
            ("SADD tags:2 more", ":1"),
            ("SISMEMBER tags:2 t999", ":1"),
            ("EXISTS tags:1", ":0"),
            ("COPY tags:2 tags:3", ":1"),
            ("RENAME tags:2 tags:2", "+OK"),
            ("SREM tags:3 more", ":1"),
            ("MULTI", "+OK"),
            ("RENAME tags:3 tags:4", "+QUEUED"),
            ("SADD tags:4 x", "+QUEUED"),
            ("EXEC", "*2 +OK :1"),
            ("SCARD tags:4", ":1001"),
            ("SCARD tags:2", ":1001"),
        ],
    );
    assert_eq!(nonce(&mut direct, "tags:2"), before);
    for key in ["tags:2", "tags:4"] {
        in_parts(&mut direct, key).unwrap().check(&mut direct, key);
    }
    // What left a key of another type stays what it was.
    talk(&mut client, &[("RENAME tags:2 plain", "+OK"), ("SCARD plain", ":1001"), ("TYPE plain", "+set")]);
    call(&mut client, "DEL tags:4 plain sess:1");
    eventually("nothing is left of them", || !call(&mut direct, "KEYS ~*").contains('|'));
}

/// To read all of it for each command, and to write it elsewhere, would hold up all others.
#[test]
fn a_large_one_that_waits_to_be_moved_stays_the_servers() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let other = "[[namespace]]\nkeys = \"other:{id:int}\"\nbucket = { span = 8 }\n";
        let proxy = proxy_before(&server, other);
        let (before, mut direct) = (proxy.layout(), server.connect().unwrap());
        let mut client = Wire::connect(address(&proxy)).unwrap();
        let members: Vec<String> = (0..600).map(|number| format!("member-{number}")).collect();
        call(&mut client, &format!("SADD tags:1 {}", members.join(" ")));
        call(&mut client, &format!("HSET sess:1 {}", members.join(" 1 ") + " 1"));
        let moving = before.plan_fold(&LayoutFile::parse(&format!("{other}{LAYOUT}")).unwrap()).unwrap().layout;
        change_layout(&server, &before, &moving);
        eventually("the layout is adopted", || proxy.layout().revision() == moving.revision());
        for (line, answer) in [
            ("SISMEMBER tags:1 member-7", ":1"),
            ("SADD tags:1 new member-7", ":1"),
            ("SREM tags:1 new member-8 none", ":2"),
            ("SCARD tags:1", ":599"),
            ("EXPIRE tags:1 1000", ":1"),
            ("HSET sess:1 member-7 2 new 3", ":1"),
            ("HINCRBY sess:1 member-7 40", ":42"),
            ("HMGET sess:1 new member-7 none", "*3 $1 3 $2 42 $-1"),
            ("HDEL sess:1 new", ":1"),
            ("HLEN sess:1", ":600"),
        ] {
            let said = call(&mut client, line);
            assert_eq!(said.trim_end().replace("\r\n", " "), answer, "{line} on {}", server.name());
        }
        for (key, kind) in [("tags:1", "set"), ("sess:1", "hash")] {
            assert_eq!(call(&mut direct, &format!("TYPE {key}")), format!("+{kind}\r\n"), "{}", server.name());
        }
    }
}
