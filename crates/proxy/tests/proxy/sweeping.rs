//! What has expired leaves the server soon, whatever stands in the way, and large buckets hold nobody up.

use std::time::Duration;

use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_proxy::{Config, start};
use keyfold_testkit::{Binary, Server, Value, Wire, found};

use super::relay::{Ending, Relay};
use super::stage::{
    Stage, address, call, change_layout, commands, config_behind, config_for, eventually, serve, start_server,
};

/// A bucket of `user:0` to `user:999`, and what its name begins with.
const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 1000 }\n";
const NEVER: Duration = Duration::from_secs(3600);

/// A stored value that expired in 2020, one that never does, by the frame's drawing.
const EXPIRED: &[u8] = b"\x01\0\0\0\0\0old";
const LIVE: &[u8] = b"alive";

fn configure(config: &mut Config, pause: Duration) {
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    config.sweep.pause = pause;
    if pause == NEVER {
        // As slowly as an operator may want it: what is due doesn't wait for that.
        config.sweep.fields_per_second = 1000;
    }
}

fn stage_before(binary: &Binary, pause: Duration) -> Stage {
    let server = binary.start(&[]).unwrap();
    let mut config = config_for(&server);
    configure(&mut config, pause);
    Stage { proxy: serve(&server, config), server }
}

/// The buckets in a database of the server, with how many fields each has.
fn buckets(wire: &mut Wire) -> Vec<(Vec<u8>, i64)> {
    let names = wire.ask(&[b"KEYS", b"~*"]).unwrap();
    let names = names.elements().unwrap().iter().map(|name| name.bytes().unwrap().to_vec());
    names.map(|name| (name.clone(), wire.ask(&[b"HLEN", &name]).unwrap().integer().unwrap_or(0))).collect()
}

fn fields(wire: &mut Wire) -> i64 {
    buckets(wire).iter().map(|(_, fields)| fields).sum()
}

/// Sets keys of some buckets, all of which expire soon.
fn set_expiring(wire: &mut Wire, keys: std::ops::Range<usize>, milliseconds: usize) {
    let count = keys.len();
    let texts: Vec<String> = keys.map(|key| format!("SET user:{} v PX {milliseconds}", key * 37)).collect();
    wire.send_bytes(&commands(&texts.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    for _ in 0..count {
        assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    }
}

fn info(wire: &mut Wire, line: &str) -> String {
    let text = wire.ask(&[b"INFO", b"keyfold"]).unwrap();
    let text = String::from_utf8_lossy(text.bytes().unwrap()).into_owned();
    text.lines().find(|found| found.starts_with(line)).unwrap_or_default().to_owned()
}

#[test]
fn what_expires_is_gone_within_seconds_though_nobody_walks() {
    for binary in found() {
        let stage = stage_before(&binary, NEVER);
        let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
        client.call(&[b"SET", b"user:1", b"stays"]).unwrap();
        for round in 0..5 {
            set_expiring(&mut client, round * 1000..(round + 1) * 1000, 100);
        }
        eventually("all that expired is gone", || fields(&mut server) == 1);
        assert_eq!(client.call(&[b"DBSIZE"]).unwrap(), b":1\r\n");
        let line = info(&mut client, "keyfold_sweep:");
        assert!(line.contains("expired=5000,orphans=0,noted=0,lag_ms=0,walk_ms=0"), "{line}");
    }
}

/// By the next layout the namespace has another number.
#[test]
fn what_is_noted_under_a_layout_is_looked_through_under_the_next() {
    let stage = stage_before(found().last().unwrap(), NEVER);
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    client.call(&[b"SET", b"user:1", b"stays"]).unwrap();
    set_expiring(&mut client, 0..1000, 3000);
    let before = stage.proxy.layout();
    let file =
        LayoutFile::parse(&format!("[[namespace]]\nkeys = \"sess:{{id:int}}\"\nbucket = {{ span = 64 }}\n{LAYOUT}"));
    let next = Layout::merge(Some(&before), &file.unwrap()).unwrap().layout;
    change_layout(&stage.server, &before, &next);
    eventually("the layout is adopted", || stage.proxy.layout().epoch() == next.epoch());
    eventually("all that expired is gone", || fields(&mut server) == 1);
    assert_eq!(client.call(&[b"GET", b"user:1"]).unwrap(), b"$5\r\nstays\r\n");
}

#[test]
fn a_look_that_was_lost_is_made_again() {
    for how in [Ending::Unheard, Ending::Unanswered] {
        let server = start_server(&[]);
        let relay = Relay::to(&server);
        let mut config = config_behind(&relay, &server);
        configure(&mut config, NEVER);
        let proxy = serve(&server, config);
        let (mut client, mut direct) = (Wire::connect(address(&proxy)).unwrap(), server.connect().unwrap());
        client.call(&[b"SET", b"user:1", b"stays"]).unwrap();
        relay.end_at("HSCAN", how);
        set_expiring(&mut client, 0..1000, 100);
        eventually("all that expired is gone", || fields(&mut direct) == 1);
        assert!(relay.has_ended());
    }
}

#[test]
fn every_way_of_setting_an_expiry_is_noted_and_an_earlier_one_counts() {
    let stage = stage_before(found().last().unwrap(), NEVER);
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    let long = "x".repeat(40_000);
    for (key, text) in [
        (1000, "SETEX k 1 v"),
        (2000, "SET k v NX PX 50"),
        (3000, "SET k v EX 900|PEXPIRE k 50"),
        (4000, "SET k v|GETEX k PX 50"),
        (5000, "MULTI|SET k v PX 50|EXEC"),
        (6000, "SET k LONG PX 50"),
        (7000, "SET k LONG|PEXPIRE k 50"),
        (8000, "SET k v PX 300|APPEND k w"),
        (9000, "SET user:9001 v PX 50|RENAME user:9001 k"),
        (10_000, "SET user:10001 LONG PX 200|RENAME user:10001 k"),
    ] {
        for command in text.split('|') {
            let command = command.replace("LONG", &long).replace(" k", &format!(" user:{key}"));
            client.send_bytes(&commands(&[&command])).unwrap();
            let reply = client.reply().unwrap();
            assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
        }
    }
    eventually("all buckets and spilled values are gone", || buckets(&mut server).is_empty());
}

#[test]
fn another_keyfolds_expiries_are_found_by_the_walk_and_a_lost_lease_harms_nothing() {
    let stage = stage_before(found().last().unwrap(), Duration::from_millis(20));
    let mut second = config_for(&stage.server);
    configure(&mut second, Duration::from_millis(20));
    let second = start(second).unwrap();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    let mut other = Wire::connect(address(&second)).unwrap();
    for key in 0..50 {
        client.call(&[b"SET", format!("user:{key}").as_bytes(), b"stays"]).unwrap();
    }
    let bucket = buckets(&mut server)[0].0.clone();
    for round in 0..20 {
        set_expiring(&mut client, round * 20..(round + 1) * 20, 30);
        set_expiring(&mut other, round * 20..(round + 1) * 20, 30);
        // Past both, as a keyfold that is gone has left it.
        let field = (500 + round).to_string();
        server.call(&[b"HSET", &bucket, field.as_bytes(), EXPIRED]).unwrap();
        server.call(&[b"DEL", b"keyfold:{home}:sweep"]).unwrap();
        if round % 2 == 0 {
            server.call(&[b"SET", b"keyfold:{home}:sweep", b"nobody", b"PX", b"50"]).unwrap();
        }
    }
    let alive = (0..50).filter(|key| key % 37 != 0).count();
    eventually("what expired is gone, and nothing else", || fields(&mut server) == i64::try_from(alive).unwrap());
    assert_eq!(client.call(&[b"GET", b"user:1"]).unwrap(), b"$5\r\nstays\r\n");
}

#[test]
fn a_sweep_goes_on_when_the_server_is_back() {
    let mut stage = stage_before(found().last().unwrap(), Duration::from_millis(20));
    let mut client = stage.connect();
    set_expiring(&mut client, 0..100, 50);
    stage.server.restart().unwrap();
    eventually("it is served again", || client.call(&[b"SET", b"user:1", b"v"]).is_ok_and(|reply| reply == b"+OK\r\n"));
    let mut server = stage.server.connect().unwrap();
    let bucket = buckets(&mut server)[0].0.clone();
    server.call(&[b"HSET", &bucket, b"500", EXPIRED]).unwrap();
    set_expiring(&mut client, 100..200, 50);
    eventually("what expired is gone", || fields(&mut server) == 1);
}

/// Fields of a bucket, written past the proxy, every tenth of them expired.
fn fill(server: &mut Wire, bucket: &[u8], count: usize) {
    for start in (0..count).step_by(5000) {
        let names: Vec<Vec<u8>> = (start..start + 5000).map(|field| field.to_string().into_bytes()).collect();
        let mut args: Vec<&[u8]> = vec![b"HSET", bucket];
        args.extend(
            names
                .iter()
                .enumerate()
                .flat_map(|(at, name)| [name.as_slice(), if at % 10 == 0 { EXPIRED } else { LIVE }]),
        );
        server.call(&args).unwrap();
    }
}

fn calls(server: &Server, command: &str) -> bool {
    let stats = server.connect().unwrap().ask(&[b"INFO", b"commandstats"]).unwrap();
    String::from_utf8_lossy(stats.bytes().unwrap()).contains(&format!("cmdstat_{command}:"))
}

#[test]
fn a_large_bucket_is_read_in_pieces_and_named() {
    for binary in found() {
        let stage = stage_before(&binary, Duration::from_millis(20));
        let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
        client.call(&[b"SET", b"user:1", b"alive"]).unwrap();
        let bucket = buckets(&mut server)[0].0.clone();
        fill(&mut server, &bucket, 50_000);
        eventually("what expired is gone", || fields(&mut server) == 45_000);
        eventually("the bucket is named", || {
            let line = info(&mut client, "keyfold_large_bucket_0:");
            line.contains(&format!("name={},fields=4", bucket.escape_ascii())) && line.ends_with("keys=user:{id:int}")
        });
        assert!(calls(&stage.server, "hscan") && !calls(&stage.server, "hgetall"), "{}", stage.server.name());
        let gone = server.ask(&[b"DEL", &bucket]).unwrap();
        assert_eq!(gone, Value::Integer(1));
        client.call(&[b"SET", b"user:1", b"alive"]).unwrap();
        eventually("it is small again", || info(&mut client, "keyfold_large_bucket_0:").is_empty());
    }
}

/// Sets in parts leave these behind in one step. They are looked for at once, though no walk comes by.
#[test]
fn parts_of_what_has_gone_are_removed_without_a_walk() {
    const TAGS: &str = "[[namespace]]\nkeys = \"tags:{id:int}\"\ntype = \"set\"\nbucket = { span = 16 }\n";
    let members: Vec<String> = (0..300).map(|number| format!("member{number}")).collect();
    for binary in found() {
        let server = binary.start(binary.with_debug()).unwrap();
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(TAGS).unwrap().into();
        config.sweep.pause = NEVER;
        let stage = Stage { proxy: serve(&server, config), server };
        let (mut client, mut direct) = (stage.connect(), stage.server.connect().unwrap());
        for id in 0..6 {
            assert_eq!(call(&mut client, &format!("SADD tags:{id} {}", members.join(" "))), ":300\r\n");
        }
        let parts = |direct: &mut Wire| direct.ask(&[b"KEYS", b"~*|*"]).unwrap().elements().unwrap().len();
        let of_one = parts(&mut direct) / 6;
        assert!(of_one > 3);
        // Parts expire, and the server counts them until it has removed them.
        assert_eq!(call(&mut direct, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
        for (request, answer) in [
            ("DEL tags:0", ":1\r\n"),
            ("PEXPIRE tags:1 300", ":1\r\n"),
            ("RENAME tags:2 tags:3", "+OK\r\n"),
            ("SINTERSTORE tags:4 tags:5 none", ":0\r\n"),
        ] {
            assert_eq!(call(&mut client, request), answer, "{request}, {}", binary.name());
        }
        eventually("four of six are gone", || {
            // What has expired counts until it is swept.
            assert!([":3\r\n", ":2\r\n"].contains(&&*call(&mut client, "DBSIZE")), "{}", binary.name());
            parts(&mut direct) == 2 * of_one
        });
        assert_eq!(call(&mut client, "DBSIZE"), ":2\r\n", "{}", binary.name());
        assert_eq!(call(&mut client, "SCARD tags:3"), ":300\r\n");
        assert_eq!(call(&mut client, "SCARD tags:5"), ":300\r\n");
    }
}
