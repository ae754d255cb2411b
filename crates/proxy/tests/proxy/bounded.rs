//! Commands on many keys go in steps that are short for the server, and answer what they would in one.

use std::collections::BTreeSet;

use keyfold_core::layout::Layout;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Value, Wire, found};

use super::stage::{Stage, address, commands, config_for, serve};

/// Some 90 keys a bucket, and a namespace whose keys a stranger may put into one bucket.
const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 90 }\n\
                      [[namespace]]\nkeys = \"item:{shop:int}:{id:int}\"\nbucket = { by = \"shop\" }\n";
const USERS: usize = 9_000;
const PLAIN: usize = 500;
const ITEMS: usize = 5_000;

/// Before the oldest server at hand and before the newest.
fn folded() -> impl Iterator<Item = Stage> {
    let servers = found();
    let last = servers.len() - 1;
    let binaries = servers.into_iter().enumerate().filter(move |(at, _)| *at == 0 || *at == last);
    binaries.map(|(_, binary)| {
        let server = binary.start(&[]).unwrap();
        let mut config = config_for(&server);
        config.layout = Layout::parse_file(LAYOUT).unwrap().into();
        Stage { proxy: serve(&server, config), server }
    })
}

fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|id| format!("{prefix}{id}")).collect()
}

fn set(wire: &mut Wire, keys: &[String]) {
    for chunk in keys.chunks(1000) {
        let mut args: Vec<&[u8]> = vec![b"MSET"];
        args.extend(chunk.iter().flat_map(|key| [key.as_bytes(), key.as_bytes()]));
        assert_eq!(wire.call(&args).unwrap(), b"+OK\r\n");
    }
}

fn command<'a>(name: &'a str, keys: &'a [String]) -> Vec<&'a [u8]> {
    std::iter::once(name.as_bytes()).chain(keys.iter().map(String::as_bytes)).collect()
}

/// How often the server carried out a command.
fn calls(server: &mut Wire, command: &str) -> u64 {
    let info = String::from_utf8(server.call(&[b"INFO", b"commandstats"]).unwrap()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// One step of SCAN: its cursor and its keys.
fn scan(wire: &mut Wire, cursor: &str, rest: &str) -> (String, Vec<String>) {
    wire.send_bytes(&commands(&[&format!("SCAN {cursor}{rest}")])).unwrap();
    let Ok(Value::Array(parts)) = Value::parse(&wire.reply().unwrap()) else { panic!("SCAN is refused") };
    let Value::Bulk(cursor) = &parts[0] else { panic!("no cursor") };
    (String::from_utf8(cursor.clone()).unwrap(), texts(&parts[1]))
}

fn texts(array: &Value) -> Vec<String> {
    let Value::Array(elements) = array else { panic!("{array:?} is no array") };
    let text = |element: &Value| match element {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?} is no key"),
    };
    elements.iter().map(text).collect()
}

#[test]
fn scan_takes_about_as_many_keys_as_it_is_told_and_shows_all() {
    for stage in folded() {
        let (mut wire, mut server) = (stage.connect(), stage.server.connect().unwrap());
        let all: BTreeSet<String> = keys("user:", USERS).into_iter().chain(keys("plain:", PLAIN)).collect();
        set(&mut wire, &all.iter().cloned().collect::<Vec<_>>());
        for (rest, count) in [("", 10), (" COUNT 100", 100), (" COUNT 1000", 1000), (" COUNT 1000 TYPE string", 1000)] {
            let (mut cursor, mut seen, mut most) = ("0".to_owned(), BTreeSet::new(), 0);
            while most == 0 || cursor != "0" {
                let (next, keys) = scan(&mut wire, &cursor, rest);
                (cursor, most) = (next, most.max(keys.len()).max(1));
                seen.extend(keys);
            }
            assert_eq!(seen, all, "SCAN{rest}");
            // A slot has a handful of buckets at the most, and each is shown whole.
            assert!(most <= 2 * count + 10 * 90, "SCAN{rest} showed {most} keys in one step");
        }
        let (_, few) = scan(&mut wire, "0", " COUNT 100000 MATCH user:899?");
        assert_eq!(few.into_iter().collect::<BTreeSet<_>>(), keys("user:899", 10).into_iter().collect());
        assert_eq!(calls(&mut server, "hgetall"), 0);
    }
}

#[test]
fn keys_are_all_shown_once_and_a_large_bucket_is_opened_in_pieces() {
    for stage in folded() {
        let (mut wire, mut server) = (stage.connect(), stage.server.connect().unwrap());
        let items = keys("item:7:", ITEMS);
        set(&mut wire, &items);
        set(&mut wire, &keys("plain:", PLAIN));
        let shown = |wire: &mut Wire, pattern: &str| {
            let mut shown = texts(&wire.ask(&[b"KEYS", pattern.as_bytes()]).unwrap());
            shown.sort_unstable();
            shown
        };
        let sorted = |mut keys: Vec<String>| {
            keys.sort_unstable();
            keys
        };
        assert_eq!(shown(&mut wire, "*"), sorted(items.iter().cloned().chain(keys("plain:", PLAIN)).collect()));
        assert_eq!(shown(&mut wire, "item:*"), sorted(items.clone()));
        assert_eq!(shown(&mut wire, "plain:*"), sorted(keys("plain:", PLAIN)));
        assert!(calls(&mut server, "hscan") >= 3 * ITEMS as u64 / 1000);
        for whole in ["keys", "hgetall"] {
            assert_eq!(calls(&mut server, whole), 0, "{whole}");
        }
        let (cursor, seen) = scan(&mut wire, "0", " COUNT 100000");
        assert_eq!((cursor.as_str(), seen.len()), ("0", ITEMS + PLAIN));
    }
}

#[test]
fn commands_on_many_keys_answer_as_one_and_go_in_steps() {
    for stage in folded() {
        let (mut wire, mut server) = (stage.connect(), stage.server.connect().unwrap());
        let (users, plain) = (keys("user:", 1300), keys("plain:", 100));
        set(&mut wire, &users);
        set(&mut wire, &plain);
        let mut asked: Vec<String> = users.iter().chain(&plain).cloned().collect();
        asked.extend(["user:99999".to_owned(), "user:1".to_owned()]);

        let before = calls(&mut server, "exec");
        // What comes behind it waits for all of it.
        wire.send(&command("MGET", &asked)).unwrap();
        wire.send(&[b"SET", b"user:1299", b"later"]).unwrap();
        let Ok(Value::Array(values)) = Value::parse(&wire.reply().unwrap()) else { panic!("MGET is refused") };
        let expected = |key: &String| match key.as_str() {
            "user:99999" => Value::Nil,
            key => Value::Bulk(key.into()),
        };
        assert_eq!(values, asked.iter().map(expected).collect::<Vec<_>>());
        assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
        assert_eq!(calls(&mut server, "exec") - before, 3);

        assert_eq!(wire.call(&command("EXISTS", &asked)).unwrap(), b":1401\r\n");
        assert_eq!(wire.call(&command("TOUCH", &asked)).unwrap(), b":1401\r\n");
        let error = wire.call(&command("MGET", &[asked.clone(), vec!["~own".to_owned()]].concat())).unwrap();
        assert!(error.starts_with(b"-ERR keyfold: '~own'"), "{}", error.escape_ascii());
        assert_eq!(wire.call(&command("UNLINK", &asked[..700])).unwrap(), b":700\r\n");
        assert_eq!(wire.call(&command("DEL", &asked)).unwrap(), b":700\r\n");
        assert_eq!(wire.call(&command("EXISTS", &asked)).unwrap(), b":0\r\n");
    }
}

#[test]
fn within_a_transaction_many_keys_are_one_moment() {
    for stage in folded() {
        let (mut wire, mut server) = (stage.connect(), stage.server.connect().unwrap());
        let users = keys("user:", 1300);
        set(&mut wire, &users);
        let at_once = |server: &mut Wire| ["eval", "evalsha"].map(|command| calls(server, command)).iter().sum::<u64>();
        let before = at_once(&mut server);
        wire.call(&[b"MULTI"]).unwrap();
        wire.call(&command("DEL", &users)).unwrap();
        assert_eq!(wire.call(&[b"EXEC"]).unwrap(), b"*1\r\n:1300\r\n");
        // The second where the server was told the script.
        assert!((1..=2).contains(&(at_once(&mut server) - before)));
    }
}

#[test]
fn few_bytes_that_stand_for_too_many_are_not_all_decoded() {
    const MEGABYTE: usize = 1 << 20;
    let layout = "[[namespace]]\nkeys = 'doc:{id:int}'\nbucket = { span = 90 }\ncodec = 'zstd'\n";
    let server = found().pop().unwrap().start(&[]).unwrap();
    let mut config = config_for(&server);
    config.layout = Layout::parse_file(layout).unwrap().into();
    let proxy = serve(&server, config);
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    // What zstd makes shorter by more than can be meant is stored as it is.
    let mut random = Random::new(1);
    let mut value: Vec<u8> = (0..15_000 / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
    value.resize(40 * MEGABYTE, b'0');
    let keys = keys("doc:", 14);
    for key in &keys {
        assert_eq!(wire.call(&[b"SET", key.as_bytes(), &value]).unwrap(), b"+OK\r\n");
    }
    let info = String::from_utf8(server.connect().unwrap().call(&[b"INFO", b"memory"]).unwrap()).unwrap();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    assert!(used.parse::<usize>().unwrap() < 10 * MEGABYTE, "{used}");
    let refused = b"-ERR keyfold: the values of these keys have more than 512 MiB; name fewer keys at once\r\n";
    assert_eq!(wire.call(&command("MGET", &keys)).unwrap(), refused);
    assert!(wire.call(&command("MGET", &keys[..2])).unwrap().len() > 80 * MEGABYTE);
    for request in [command("EXISTS", &keys), command("DEL", &keys)] {
        assert_eq!(wire.call(&request).unwrap(), b":14\r\n");
    }
}
