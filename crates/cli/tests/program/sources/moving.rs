//! Clients read and write while keys come out of the hashes; a mover that is killed, and one that goes on.

use std::collections::BTreeMap;
use std::process::Stdio;

use keyfold_testkit::{Wire, found};
use tempfile::TempDir;

use super::program::{MEDIA, NIL, Proxy, bulk, command, fold, keyfold, names, write_fields, write_layout};

const KEYS: u64 = 12_000;
const FROM: [&str; 4] = ["--from", "buckets", "--keys", "mediabucket:{id/1000}"];

/// What every key must hold, as clients wrote it.
type Expected = BTreeMap<u64, Vec<u8>>;

/// One client command of each kind, by turns, and what it must answer.
fn act(wire: &mut Wire, expected: &mut Expected, round: u64) {
    let id = round.wrapping_mul(7_919) % (KEYS + 100);
    let key = format!("media:{id}");
    let key = key.as_bytes();
    let held = expected.get(&id).cloned();
    match round % 5 {
        0 => {
            let value = format!("written {round}").into_bytes();
            assert_eq!(wire.call(&[b"SET", key, &value]).unwrap(), b"+OK\r\n");
            expected.insert(id, value);
        }
        1 => {
            let there = format!(":{}\r\n", u8::from(expected.remove(&id).is_some()));
            assert_eq!(wire.call(&[b"DEL", key]).unwrap(), there.as_bytes());
        }
        2 => {
            let whole = [held.unwrap_or_default(), b"+".to_vec()].concat();
            assert_eq!(wire.call(&[b"APPEND", key, b"+"]).unwrap(), format!(":{}\r\n", whole.len()).as_bytes());
            expected.insert(id, whole);
        }
        3 => {
            let answer = if held.is_none() { &b":1\r\n"[..] } else { b":0\r\n" };
            assert_eq!(wire.call(&[b"SETNX", key, b"new"]).unwrap(), answer);
            expected.entry(id).or_insert_with(|| b"new".to_vec());
        }
        _ => assert_eq!(wire.call(&[b"GET", key]).unwrap(), held.map_or(NIL.to_vec(), |value| bulk(&value))),
    }
}

fn check(wire: &mut Wire, expected: &Expected) {
    for id in 0..KEYS + 100 {
        let held = expected.get(&id).map_or(NIL.to_vec(), |value| bulk(value));
        assert_eq!(wire.call(&[b"GET", format!("media:{id}").as_bytes()]).unwrap(), held, "media:{id}");
    }
    let size = format!(":{}\r\n", expected.len());
    assert_eq!(wire.call(&[b"DBSIZE"]).unwrap(), size.as_bytes());
}

/// All logical keys that SCAN and KEYS show, each once.
fn shown(wire: &mut Wire) -> (Vec<String>, Vec<String>) {
    let lines = |reply: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(reply).lines().filter(|line| line.contains("media")).map(str::to_owned).collect()
    };
    let mut scanned = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = wire.call(&[b"SCAN", cursor.as_bytes(), b"COUNT", b"500", b"TYPE", b"string"]).unwrap();
        scanned.extend(lines(&reply));
        cursor = String::from_utf8_lossy(&reply).lines().nth(2).unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    scanned.sort_unstable();
    let mut keys = lines(&wire.call(&[b"KEYS", b"media*"]).unwrap());
    keys.sort_unstable();
    (scanned, keys)
}

#[test]
fn clients_go_on_and_a_killed_mover_is_taken_up_again() {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let layout = write_layout(dir.path(), MEDIA);
        let mut expected: Expected = (0..KEYS).map(|id| (id, format!("value {id}").into_bytes())).collect();
        let hash = |id: u64| format!("mediabucket:{}", id / 1000);
        let fields: Vec<_> = expected.iter().map(|(id, value)| (hash(*id), id.to_string(), value.clone())).collect();
        write_fields(&mut server.connect().unwrap(), &fields);
        let proxy = Proxy::start(&server);
        let mut client = proxy.connect();

        // So slow that it doesn't come to an end.
        let url = server.url();
        let args = ["fold", &url, "--yes", "--max-ops", "10000", "--layout", layout.to_str().unwrap()];
        let mut mover = command(&[&args[..], &FROM].concat());
        let mut mover = mover.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while client.call(&[b"GET", b"media:11999"]).unwrap() == NIL {}
        let mut direct = server.connect().unwrap();
        while names(&mut direct, "~*") < 20 {}
        (0..1_000).for_each(|round| act(&mut client, &mut expected, round));
        mover.kill().unwrap();
        mover.wait().unwrap();
        let left = names(&mut direct, "mediabucket:*");
        assert!(left > 0, "{}: the mover was killed amid its work", server.name());

        // Between two places all is as ever.
        check(&mut client, &expected);
        let mut all: Vec<String> = expected.keys().map(|id| format!("media:{id}")).collect();
        all.sort_unstable();
        assert_eq!(shown(&mut client), (all.clone(), all));
        let mut random = String::from_utf8(client.call(&[b"RANDOMKEY"]).unwrap()).unwrap();
        random.truncate(random.trim_end().len());
        assert!(random.contains("\r\nmedia:"), "{random}");
        let unmoved = format!(
            "media:{}",
            String::from_utf8(direct.call(&[b"HRANDFIELD", b"mediabucket:0"]).unwrap())
                .unwrap()
                .lines()
                .nth(1)
                .unwrap_or("0")
        );
        let ran = keyfold(&["where", &unmoved, "--upstream", &url]);
        assert!(ran.stdout.contains("moving from") && ran.stdout.contains("handmade"), "{}{}", ran.stdout, ran.stderr);
        let dump = dir.path().join("dump.jsonl");
        let ran = keyfold(&["export", &url, "--out", dump.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let ran = keyfold(&["verify", &url, "--skip-encodings", "--against", dump.to_str().unwrap()]);
        assert!(ran.stdout.contains("the dump and the server are equal"), "{}{}", ran.stdout, ran.stderr);

        let ran = fold(&server, &layout, &FROM);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        (1_000..2_000).for_each(|round| act(&mut client, &mut expected, round));
        check(&mut client, &expected);
        assert_eq!(names(&mut direct, "mediabucket:*"), 0, "{}", server.name());
        let ran = keyfold(&["verify", &url, "--skip-encodings"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    }
}
