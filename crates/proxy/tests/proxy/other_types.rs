//! Keys of another type than their namespace's stay where they were while it is moved, and commands on them go to the server. What
//! is written meanwhile in the key's new place is not joined by another one under its own name.

use std::thread;

use keyfold_core::layout::{Attempt, Layout, LayoutFile};
use keyfold_testkit::{Wire, found};

use crate::collections;
use crate::stage::{address, call, change_layout, commands, config_for, eventually, proxy_while_folding, serve};

const LAYOUT: &str = r#"
    [[namespace]]
    keys = "user:{id:int}"
    bucket = { span = 8 }
"#;

#[test]
fn a_key_is_never_in_both_places() {
    const ROUNDS: u32 = 300;
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_while_folding(&server, LAYOUT);
        let mut direct = server.connect().unwrap();
        let (mut pushes, mut sets) = (0, 0);
        for push in ["RPUSH user:900 c", "LPUSHX user:900 c", "LINSERT user:900 BEFORE a c"] {
            for _ in 0..ROUNDS / 3 {
                call(&mut direct, "DEL user:900");
                let mut clients = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
                call(&mut clients[0], "DEL user:900");
                assert_eq!(call(&mut direct, "RPUSH user:900 a"), ":1\r\n");
                let [pusher, setter] = &mut clients;
                let (pushed, set) = thread::scope(|scope| {
                    let pushed = scope.spawn(|| call(pusher, push));
                    let set = scope.spawn(|| call(setter, "SET user:900 v"));
                    (pushed.join().unwrap(), set.join().unwrap())
                });
                assert_eq!(set, "+OK\r\n");
                sets += 1;
                let is_pushed = pushed == ":2\r\n";
                assert!(is_pushed || pushed.starts_with("-WRONGTYPE"), "{}: {push}: {pushed}", server.name());
                pushes += u32::from(is_pushed);
                assert_eq!(call(&mut direct, "EXISTS user:900"), ":0\r\n", "{}: {push}", server.name());
                assert_eq!(call(&mut clients[0], "GET user:900"), "$1\r\nv\r\n");
            }
        }
        assert!(pushes < sets, "{}: SET never came first", server.name());
    }
}

/// By the time that there is something to give, the key may be folded, and of another type.
#[test]
fn nobody_waits_to_give_to_a_key_that_is_folded_meanwhile() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let before = Layout::parse_file("[[namespace]]\nkeys = 'page:{id:int}'\nbucket = { span = 8 }\n").unwrap();
        let before = before.with_attempt(Attempt(1));
        let mut config = config_for(&server);
        config.layout = before.clone().into();
        let proxy = serve(&server, config);
        let mut direct = server.connect().unwrap();
        assert_eq!(call(&mut direct, "SET user:5 string"), "+OK\r\n");
        let blocked = || call(&mut server.connect().unwrap(), "INFO clients").contains("blocked_clients:3");
        let mut waiting =
            ["BLMOVE src user:5 LEFT RIGHT 0", "BRPOPLPUSH src user:6 0", "BLMOVE src plain:1 LEFT RIGHT 0"].map(
                |line| {
                    let mut wire = Wire::connect(address(&proxy)).unwrap();
                    wire.send_bytes(&commands(&[line])).unwrap();
                    wire
                },
            );
        eventually("all wait", blocked);
        let file =
            LayoutFile::parse(&format!("{}{LAYOUT}", "[[namespace]]\nkeys = 'page:{id:int}'\nbucket = { span = 8 }\n"));
        let moving = before.plan_fold(&file.unwrap()).unwrap().layout.with_attempt(Attempt(2));
        change_layout(&server, &before, &moving);
        for wire in &mut waiting[..2] {
            let said = wire.reply().unwrap().escape_ascii().to_string();
            assert!(said.starts_with("-ERR keyfold: ") || said.starts_with("-UNBLOCKED "), "{}: {said}", server.name());
        }
        // The other one waits as before.
        let mut client = Wire::connect(address(&proxy)).unwrap();
        assert_eq!(call(&mut client, "LPUSH src element"), ":1\r\n");
        assert_eq!(waiting[2].reply().unwrap(), b"$7\r\nelement\r\n", "{}", server.name());
        assert_eq!(call(&mut client, "LPUSH src element"), ":1\r\n");
        assert_eq!(call(&mut client, "LLEN src"), ":1\r\n", "{}: it was given away", server.name());
        // Nor does anybody begin to wait for that.
        assert_eq!(call(&mut direct, "RPUSH user:7 a"), ":1\r\n");
        let said = call(&mut client, "BLMOVE none user:7 LEFT RIGHT 0");
        assert!(said.contains("use LMOVE until that is over"), "{}: {said}", server.name());
        assert_eq!(call(&mut client, "BLMOVE user:7 plain:1 LEFT RIGHT 0"), "$1\r\na\r\n", "what only takes may wait");
    }
}

#[test]
fn they_are_used_as_ever_by_either_protocol() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_while_folding(&server, LAYOUT);
        let (mut client, mut direct) = (Wire::connect(address(&proxy)).unwrap(), server.connect().unwrap());
        for protocol in ["2", "3"] {
            for wire in [&mut client, &mut direct] {
                call(wire, &format!("HELLO {protocol}"));
            }
            call(&mut direct, "DEL user:1 user:2 plain:1 plain:2");
            for key in ["user", "plain"] {
                call(&mut direct, &format!("RPUSH {key}:1 a b"));
                call(&mut direct, &format!("ZADD {key}:2 1 a 2.5 b"));
                call(&mut direct, &format!("DEL {key}:3"));
                call(&mut direct, &format!("HSET {key}:3 n 9007199254740992"));
            }
            for line in [
                "RPUSH K:1 c",
                "LRANGE K:1 0 -1",
                "LMOVE K:1 K:1 LEFT RIGHT",
                "LPOP K:1",
                "EXPIRE K:1 1000",
                "TTL K:1",
                "PERSIST K:1",
                "ZADD K:2 INCR 1 a",
                "ZRANGE K:2 0 -1 WITHSCORES",
                "ZINCRBY K:2 0.5 b",
                "ZADD K:2 1 a x",
                "RPUSH K:2 a",
                "INCR K:2",
                "LPUSH K:1",
                "HINCRBY K:3 n 1",
                "HSET K:3 f v",
                "HPERSIST K:3 FIELDS 1 f",
                "HGETDEL K:3 FIELDS 1 f",
                "SETRANGE K:1 1 x",
            ] {
                let [folded, plain] = [(&mut client, "user"), (&mut direct, "plain")]
                    .map(|(wire, key)| call(wire, &line.replace('K', key)));
                let folded = folded.replace("'user:", "'plain:");
                assert_eq!(folded, plain, "{}: {line} by protocol {protocol}", server.name());
            }
        }
    }
}

/// What a plain server says, and one whose keys are on their way into buckets, to the same client; `fill` has written them before.
fn plain_and_moving(protocol: &str, fill: &[&str], asked: &[&str]) {
    for binary in found() {
        let [plain, behind] = [(); 2].map(|()| binary.start(&[]).unwrap());
        for server in [&plain, &behind] {
            let mut direct = server.connect().unwrap();
            fill.iter().for_each(|command| assert!(!call(&mut direct, command).starts_with('-'), "{command}"));
        }
        let proxy = proxy_while_folding(&behind, collections::LAYOUT);
        let mut wires = [plain.connect().unwrap(), Wire::connect(address(&proxy)).unwrap()];
        wires.iter_mut().for_each(|wire| drop(call(wire, protocol)));
        for command in asked {
            let [mut theirs, mut ours] = wires.each_mut().map(|wire| call(wire, command));
            if command.starts_with("HGETALL") {
                // In whatever order.
                [&mut theirs, &mut ours].into_iter().for_each(|answer| answer.truncate(answer.find('\r').unwrap()));
            }
            let is_known = !theirs.contains("unknown command") && !theirs.starts_with("-EXECABORT");
            assert!(ours == theirs || !is_known, "{}: {command}: plain {theirs:?}, keyfold {ours:?}", binary.name());
        }
    }
}

#[test]
fn a_hash_of_many_fields_that_is_not_moved_yet_answers_exactly_and_with_what_is_not_there() {
    let fields: String = (0..600).map(|field| format!(" f{field} v{field}")).collect();
    let fill = format!("HSET sess:1{fields}");
    let asked = [
        "HMGET sess:1 f1 nope f2",
        "HGET sess:1 nope",
        "HINCRBY sess:1 c 9223372036854775807",
        "HINCRBY sess:1 c -7",
        "hincrby sess:1 c -9223372036854775807",
        "HINCRBYFLOAT sess:1 d 1.5",
        "HGETDEL sess:1 FIELDS 3 nope f599 nope",
        "HGETEX sess:1 FIELDS 3 nope f598 f599",
        "HLEN sess:1",
        "HRANDFIELD sess:1 0",
        "HGETALL sess:1",
        "HINCRBY sess:1 f1 1",
    ];
    for protocol in ["HELLO 2", "HELLO 3"] {
        plain_and_moving(protocol, &[&fill], &asked);
    }
}

#[test]
fn what_a_transaction_has_removed_is_gone_for_its_next_commands_though_it_is_not_moved_yet() {
    let fill = ["SADD tags:2 a", "SADD tags:4 a b", "SET user:1 v", "HSET sess:1 f v"];
    let mut asked = Vec::new();
    for (removes, then) in [
        ("DEL tags:2", "SORT tags:2 ALPHA"),
        ("SPOP tags:2 5", "ZUNION 1 tags:2"),
        ("DEL tags:2", "LPOP tags:2"),
        ("DEL tags:2", "BLPOP tags:2 1"),
        ("RENAME tags:2 tags:3", "SORT tags:2 ALPHA"),
        ("SREM tags:4 a b", "LLEN tags:4"),
        ("DEL user:1", "LLEN user:1"),
        ("DEL sess:1", "LRANGE sess:1 0 -1"),
    ] {
        asked.extend(["MULTI", removes, then, "EXEC", "DEL tags:2 tags:3 tags:4 user:1 sess:1"]);
        asked.extend(fill);
    }
    for protocol in ["HELLO 2", "HELLO 3"] {
        plain_and_moving(protocol, &fill, &asked);
    }
}
