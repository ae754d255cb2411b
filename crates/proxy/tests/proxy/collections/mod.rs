//! Small sets and hashes as values in buckets: does any client notice?
//!
//! | module | what it asks |
//! | --- | --- |
//! | `bytes` | do hostile members and very many answer as in the plain server? |
//! | `cluster` | and before a cluster whose slots move? |
//! | `damage` | what of stored values that are no such collection? |
//! | `excerpts` | are members of large ones drawn with the same chance, and walks complete? |
//! | `expiry` | is a field there until it expires, and not after, whoever writes? |
//! | `full` | are writes refused as by a plain server whose memory is full, and is nothing half done? |
//! | `interrupted` | what of a connection that is lost between the read and the write? |
//! | `parts` | and large ones, which lie in parts? |
//! | `scripts` | do scripts on them answer as on plain ones, and in one step? |
//! | `shared` | are all members there that many clients wrote at once, whatever happens between? |

mod bytes;
mod cluster;
mod damage;
mod excerpts;
mod expiry;
mod full;
mod hints;
mod interrupted;
mod parts;
mod scripts;
mod shared;
mod together;

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use keyfold_core::layout::Located;
use keyfold_testkit::{Server, Wire, found};

use crate::stage::{address, call, eventually, proxy_before};
use crate::tracking::Told;

pub(crate) const LAYOUT: &str = r#"
    [[namespace]]
    keys = "tags:{id:int}"
    type = "set"
    bucket = { span = 8 }
    [[namespace]]
    keys = "sess:{id:int}"
    type = "hash"
    bucket = { count = 2 }
    value_limit = 48
    [[namespace]]
    keys = "user:{id:int}"
    bucket = { span = 8 }
"#;

fn on_every_server(body: impl Fn(&Server, &mut Wire, &mut Wire)) {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let connect = || Wire::connect(address(&proxy)).unwrap();
        body(&server, &mut connect(), &mut connect());
    }
}

/// Says each line, and what is answered; what comes in no order is sorted.
fn talk(wire: &mut Wire, lines: &[(&str, &str)]) {
    for (line, answer) in lines {
        let said = call(wire, line);
        let mut words: Vec<&str> = said.split("\r\n").filter(|word| !word.is_empty()).collect();
        words.retain(|word| !word.starts_with('$') || *word == "$-1");
        let from = if line.starts_with("SCAN") { 3 } else { 1 };
        if ["SMEMBERS", "SUNION", "SINTER", "SDIFF", "KEYS", "SCAN"].iter().any(|name| line.starts_with(name)) {
            words.get_mut(from..).unwrap_or_default().sort_unstable();
        }
        assert_eq!(words.join(" "), *answer, "{line}");
    }
}

#[test]
fn they_are_used_as_ever() {
    on_every_server(|server, client, _| {
        talk(
            client,
            &[
                ("HSET sess:1 uid 7 ip 10.0.0.1 ua firefox", ":3"),
                ("HGETALL sess:1", "*6 uid 7 ip 10.0.0.1 ua firefox"),
                ("HINCRBY sess:1 uid 3", ":10"),
                ("HMGET sess:1 uid none", "*2 10 $-1"),
                ("TYPE sess:1", "+hash"),
                ("EXPIRE sess:1 100", ":1"),
                ("HSET sess:1 note a-text-that-makes-it-longer-than-the-limit-is", ":1"),
                ("TTL sess:1", ":100"),
                ("HDEL sess:1 note ua ip", ":3"),
                ("HGETALL sess:1", "*2 uid 10"),
                ("SADD tags:1 b a 007 7", ":4"),
                ("SMEMBERS tags:1", "*4 007 7 a b"),
                ("SISMEMBER tags:1 007", ":1"),
                ("SADD plain a c", ":2"),
                ("SINTER tags:1 plain", "*1 a"),
                ("SUNIONSTORE tags:2 tags:1 plain", ":5"),
                ("SDIFFSTORE plain tags:2 tags:1", ":1"),
                ("SMEMBERS plain", "*1 c"),
                ("SMOVE tags:1 plain a", ":1"),
                ("SMEMBERS plain", "*2 a c"),
                ("RENAME tags:1 elsewhere", "+OK"),
                ("SCARD elsewhere", ":3"),
                ("RENAME elsewhere tags:3", "+OK"),
                ("SMEMBERS tags:3", "*3 007 7 b"),
                ("SREM tags:3 b 7 007", ":3"),
                ("EXISTS tags:3", ":0"),
                ("KEYS *", "*3 plain sess:1 tags:2"),
                ("DBSIZE", ":3"),
                ("GET sess:1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("HGET tags:2 f", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("SMEMBERS sess:1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("LPUSH sess:1 x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
                ("SCAN 0 TYPE set COUNT 1000", "*2 0 *2 plain tags:2"),
                ("SCAN 0 TYPE hash COUNT 1000", "*2 0 *1 sess:1"),
                ("SCAN 0 TYPE string COUNT 1000", "*2 0 *0"),
                ("OBJECT ENCODING sess:1", "listpack"),
                ("SORT tags:2 ALPHA", "*5 007 7 a b c"),
                ("DEL sess:1 tags:2 plain", ":3"),
            ],
        );
        // What was spilled stays for some seconds, for readers that were pointed to it.
        let mut direct = server.connect().unwrap();
        let buckets =
            call(&mut direct, "KEYS ~*").lines().filter(|line| line.starts_with('~') && !line.contains('!')).count();
        assert_eq!(buckets, 0, "{}", server.name());
    });
}

#[test]
fn in_a_transaction_they_are_one_step_with_all_else() {
    on_every_server(|_, client, other| {
        talk(
            client,
            &[
                ("SADD tags:1 a", ":1"),
                ("MULTI", "+OK"),
                ("SADD tags:1 b", "+QUEUED"),
                ("SCARD tags:1", "+QUEUED"),
                ("HSET sess:1 f v", "+QUEUED"),
                ("SET user:1 x", "+QUEUED"),
                ("SADD plain z", "+QUEUED"),
                ("SUNION tags:1 plain", "+QUEUED"),
                ("RPUSH list x", "+QUEUED"),
                ("EXEC", "*7 :1 :2 :1 +OK :1 *3 a b z :1"),
                ("SMEMBERS plain", "*1 z"),
                ("WATCH tags:1", "+OK"),
                ("MULTI", "+OK"),
                ("SADD tags:1 c", "+QUEUED"),
            ],
        );
        talk(other, &[("SREM tags:1 a", ":1")]);
        talk(client, &[("EXEC", "*-1"), ("SMEMBERS tags:1", "*1 b")]);
    });
}

/// A command of another type on a folded key is shown that before EXEC: it must neither write then, nor miss what the transaction writes.
#[test]
fn what_the_server_would_carry_out_before_exec_is_refused_in_a_transaction() {
    on_every_server(|_, client, _| {
        talk(client, &[("SADD tags:1 m", ":1"), ("RPUSH q a b", ":2"), ("SET user:1 s", "+OK")]);
        for line in ["ZUNIONSTORE d 1 tags:1", "SORT tags:1 ALPHA STORE l", "LMPOP 2 q user:1 LEFT"] {
            assert_eq!(call(client, "MULTI"), "+OK\r\n");
            let said = call(client, line);
            // What a server doesn't know it refuses itself.
            let is_refused = said.starts_with("-ERR keyfold: ") && said.contains("in a transaction");
            assert!(is_refused || said.starts_with("-ERR unknown command"), "{line}: {said}");
            assert!(call(client, "EXEC").starts_with("-EXECABORT "), "{line}");
        }
        talk(client, &[("EXISTS d l", ":0"), ("LLEN q", ":2"), ("ZUNIONSTORE d 1 tags:1", ":1")]);
        let lines =
            [("MULTI", "+OK"), ("ZADD z 5 m", "+QUEUED"), ("ZUNIONSTORE e 1 z", "+QUEUED"), ("EXEC", "*2 :1 :1")];
        talk(client, &lines);
        talk(client, &[("MULTI", "+OK"), ("ZADD z 6 n", "+QUEUED")]);
        if call(client, "ZUNION 2 z tags:1") == "+QUEUED\r\n" {
            let said = call(client, "EXEC");
            assert!(said.starts_with("-EXECABORT keyfold: ") && said.contains("the same key"), "{said}");
        }
        call(client, "DISCARD");
        talk(client, &[("ZCARD z", ":1")]);
    });
}

/// Who takes a member out of a set, then out of what is made of it, finds it there no more, as no ZUNIONSTORE that comes later has it.
#[test]
fn what_another_command_makes_of_a_set_is_what_the_set_holds_then() {
    on_every_server(|_, client, other| {
        let many: String = (0..300).map(|number| format!(" m{number}")).collect();
        call(client, &format!("SADD tags:1{many}"));
        call(client, "SADD tags:2 a b");
        for set in ["tags:1", "tags:2"] {
            thread::scope(|scope| {
                let taking = scope.spawn(|| {
                    for _ in 0..400 {
                        talk(client, &[(&format!("SADD {set} x"), ":1"), (&format!("SREM {set} x"), ":1")]);
                        call(client, "ZREM d x");
                        talk(client, &[("ZSCORE d x", "$-1")]);
                    }
                });
                let mut made = 0;
                while !taking.is_finished() {
                    let said = call(other, &format!("ZUNIONSTORE d 1 {set}"));
                    assert!(said.starts_with(':'), "{said}");
                    made += 1;
                }
                assert!(made > 50, "{made}");
            });
        }
    });
}

#[test]
fn fields_expire_before_every_server() {
    on_every_server(|server, client, _| {
        let mut direct = server.connect().unwrap();
        talk(
            client,
            &[
                ("HSET sess:1 f v g w", ":2"),
                ("HPEXPIRE sess:1 100000 FIELDS 1 g", "*1 :1"),
                ("HPEXPIRE sess:1 1 FIELDS 1 f", "*1 :1"),
                ("TTL sess:1", ":-1"),
            ],
        );
        eventually("the field is gone", || call(client, "HGET sess:1 f").starts_with("$-1"));
        talk(client, &[("HGETALL sess:1", "*2 g w"), ("HLEN sess:1", ":1"), ("HTTL sess:1 FIELDS 1 g", "*1 :100")]);
        // The last one takes the hash along, and nothing stays in the server.
        talk(client, &[("HPEXPIRE sess:1 20 FIELDS 1 g", "*1 :1")]);
        eventually("the hash is gone", || call(client, "EXISTS sess:1") == ":0\r\n");
        eventually("its bucket is swept", || call(&mut direct, "KEYS ~*") == "*0\r\n");
    });
}

#[test]
fn what_a_bucket_of_them_cannot_hold_is_refused() {
    on_every_server(|_, client, _| {
        talk(client, &[("SADD tags:1 a", ":1"), ("HSET sess:1 f v", ":1")]);
        for (line, why) in [
            ("SET tags:1 x", "whose keys are sets; it can't hold a string"),
            ("HSET tags:2 f v", "whose keys are sets; it can't hold a hash"),
            ("SADD sess:2 a", "whose keys are hashes; it can't hold a set"),
            ("RPUSH tags:2 a", "whose keys are sets; use another key"),
            ("RENAME tags:1 sess:1", "whose keys are hashes; it can't hold a set"),
            ("RENAME tags:1 user:1", "whose keys are strings; it can't hold a set"),
            ("SADD user:1 a", "whose keys are strings"),
            ("COPY tags:1 tags:2 DB 1", "COPY to another database is not supported"),
        ] {
            let said = call(client, line);
            assert!(said.starts_with("-ERR keyfold: ") && said.contains(why), "{line}: {said}");
        }
        talk(client, &[("SMEMBERS tags:1", "*1 a"), ("HGETALL sess:1", "*2 f v"), ("DBSIZE", ":2")]);
    });
}

#[test]
fn a_plain_set_of_very_many_members_stays_in_the_server() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxy = proxy_before(&server, LAYOUT);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    for thousand in 0..263 {
        let members: Vec<String> = (0..1000).map(|one| (thousand * 1000 + one).to_string()).collect();
        call(&mut client, &format!("SADD plain {}", members.join(" ")));
    }
    call(&mut client, "SADD tags:1 a 7");
    for line in
        ["SINTER tags:1 plain", "SUNIONSTORE tags:2 tags:1 plain", "RENAME plain tags:3", "SMOVE plain tags:1 5"]
    {
        let said = call(&mut client, line);
        let why = "it is a set of 263000 members, and keyfold works on 262144 at most";
        assert!(said.starts_with("-ERR keyfold: key 'plain'") && said.contains(why), "{line}: {said}");
    }
    talk(
        &mut client,
        &[
            ("EXISTS tags:1 plain", ":2"),
            ("MGET tags:1 plain", "*2 $-1 $-1"),
            ("SCARD plain", ":263000"),
            ("RENAME tags:1 tags:4", "+OK"),
            ("DEL tags:4 plain", ":2"),
        ],
    );
}

/// Parents that wait for their children: whoever takes the last one away acts, and nobody else.
#[test]
fn who_brings_a_set_to_empty_is_one() {
    const CHILDREN: usize = 60;
    let server = found().pop().unwrap().start(&[]).unwrap();
    let proxies = [proxy_before(&server, LAYOUT), proxy_before(&server, LAYOUT)];
    let connect = |nth: usize| Wire::connect(address(&proxies[nth % 2])).unwrap();
    let children: Vec<String> = (0..CHILDREN).map(|child| format!("child{child}")).collect();
    for parent in 0..4 {
        call(&mut connect(0), &format!("SADD tags:{parent} {}", children.join(" ")));
    }
    let emptied: usize = thread::scope(|scope| {
        let workers = (0..6).map(|worker| {
            let (mut wire, children) = (connect(worker), &children);
            scope.spawn(move || {
                let mut emptied = 0;
                for child in children.iter().skip(worker).step_by(6) {
                    for parent in 0..4 {
                        call(&mut wire, "MULTI");
                        call(&mut wire, &format!("SREM tags:{parent} {child}"));
                        call(&mut wire, &format!("SCARD tags:{parent}"));
                        emptied += usize::from(call(&mut wire, "EXEC") == "*2\r\n:1\r\n:0\r\n");
                    }
                }
                emptied
            })
        });
        workers.collect::<Vec<_>>().into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(emptied, 4, "each parent was found empty once");
    assert_eq!(call(&mut connect(1), "DBSIZE"), ":0\r\n");
}

#[test]
fn subscribers_hear_of_them_by_their_names() {
    on_every_server(|server, client, listener| {
        call(&mut server.connect().unwrap(), "CONFIG SET notify-keyspace-events Kshg");
        call(listener, "PSUBSCRIBE __keyspace@0__:*");
        // What is published is known a moment later.
        thread::sleep(Duration::from_millis(1500));
        for line in ["SADD tags:1 a", "SREM tags:1 a", "HSET sess:1 f v", "HDEL sess:1 f"] {
            call(client, line);
        }
        let heard: Vec<String> = (0..6)
            .map(|_| {
                let message = String::from_utf8(listener.reply().unwrap()).unwrap();
                let words: Vec<&str> = message.split("\r\n").collect();
                format!("{} {}", words[6].trim_start_matches("__keyspace@0__:"), words[8])
            })
            .collect();
        let expected = ["tags:1 sadd", "tags:1 srem", "tags:1 del", "sess:1 hset", "sess:1 hdel", "sess:1 del"];
        assert_eq!(heard, expected, "{}", server.name());
    });
}

#[test]
fn who_caches_one_is_told_when_it_changes_or_a_field_expires() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let (one, other) = (proxy_before(&server, LAYOUT), proxy_before(&server, LAYOUT));
    let mut me = Told::new(&one, "");
    let mut there = Wire::connect(address(&other)).unwrap();
    call(&mut there, "SADD tags:1 a");
    me.ask("SMEMBERS tags:1");
    me.heard = BTreeSet::new();
    call(&mut there, "SADD tags:1 b");
    me.hear("tags:1", "another has added a member");
    call(&mut there, "HSET sess:1 f v g w");
    call(&mut there, "HPEXPIRE sess:1 300 FIELDS 1 f");
    me.ask("HGET sess:1 f");
    me.heard = BTreeSet::new();
    me.hear("sess:1", "a field has expired");
}

#[test]
fn one_that_outgrows_its_bucket_is_spilled_and_comes_back() {
    on_every_server(|server, client, _| {
        let Located::Placed(place) = keyfold_core::layout::Layout::parse_file(LAYOUT).unwrap().locate(b"sess:1") else {
            panic!("it is folded")
        };
        let stored = |direct: &mut Wire| {
            let reply = direct.ask(&[b"HGET", &place.physical, &place.field]).unwrap();
            reply.bytes().map_or(0, <[u8]>::len)
        };
        let mut direct = server.connect().unwrap();
        for field in 0..300 {
            assert_eq!(call(client, &format!("HSET sess:1 f{field} value{field}")), ":1\r\n");
        }
        assert!(stored(&mut direct) < 48, "a header");
        assert_eq!(call(client, "HLEN sess:1"), ":300\r\n");
        let names: Vec<String> = (1..300).map(|field| format!("f{field}")).collect();
        assert_eq!(call(client, &format!("HDEL sess:1 {}", names.join(" "))), ":299\r\n");
        assert_eq!(call(client, "HGETALL sess:1"), "*2\r\n$2\r\nf0\r\n$6\r\nvalue0\r\n");
        assert_eq!(stored(&mut direct), 11, "the value itself: {}", server.name());
    });
}
