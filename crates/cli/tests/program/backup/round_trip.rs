//! What a proxy wrote comes out whole, goes into a server of another layout, and is equal there.

use std::io::Write;
use std::path::Path;

use keyfold_testkit::{Server, Subject, found};
use tempfile::TempDir;

use super::program::{LAYOUT, OTHER_LAYOUT, Ran, command, export, fill, import, keyfold, keys_in, push, verify, whole};

fn on_every_server(body: impl Fn(&Server, &Path)) {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        body(&server, dir.path());
    }
}

fn assert_equal(ran: &Ran, what: &str) {
    assert_eq!(ran.code, Some(0), "{what}: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("the dump and the server are equal"), "{what}: {}", ran.stdout);
}

#[test]
fn into_another_layout_into_none_and_back() {
    on_every_server(|server, dir| {
        let proxy = Subject::start(server, LAYOUT).unwrap();
        let keys = fill(&mut keyfold_testkit::Wire::connect(proxy.address()).unwrap());
        let dump = dir.join("dump.jsonl.gz");
        export(server, &dump);
        assert_equal(&verify(server, &["--against", dump.to_str().unwrap()]), &server.name());

        // Of whatever version and project: the oldest and the newest of those at hand.
        let layouts = [Some(OTHER_LAYOUT), None, Some(LAYOUT)];
        let (all, last) = (found(), found().len() - 1);
        for (layout, at) in layouts.into_iter().flat_map(|layout| [(layout, 0), (layout, last)]) {
            let other = all[at].start(&[]).unwrap();
            if let Some(layout) = layout {
                push(&other, layout);
            }
            let what = format!("{} to {} with {layout:?}", server.name(), other.name());
            let ran = import(&other, &dump, &[]);
            assert_eq!(ran.code, Some(0), "{what}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stdout.starts_with(&format!("{keys} of {keys} keys written")), "{what}: {}", ran.stdout);
            assert_equal(&verify(&other, &["--against", dump.to_str().unwrap()]), &what);

            // Exported again, the lines are the same but for their order and DUMP's bytes.
            let again = dir.join("again.jsonl");
            export(&other, &again);
            assert_equal(&verify(server, &["--against", again.to_str().unwrap()]), &what);
            let ran = import(&other, &dump, &[]);
            assert!(ran.stdout.contains(&format!("{keys} there already, the same")), "{what}: {}", ran.stdout);
            assert_eq!(ran.code, Some(0));
        }
        drop(proxy);
    });
}

/// A server that takes no writes any more is backed up all the same, though some then refuse reads in a MULTI, too.
#[test]
fn out_of_a_full_server() {
    on_every_server(|server, dir| {
        let proxy = Subject::start(server, LAYOUT).unwrap();
        let mut wire = keyfold_testkit::Wire::connect(proxy.address()).unwrap();
        let keys = fill(&mut wire);
        let dump = dir.join("dump.jsonl");
        assert_eq!(server.connect().unwrap().call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap(), b"+OK\r\n");
        assert!(wire.call(&[b"SET", b"user:1", b"refused"]).unwrap().starts_with(b"-OOM"));
        export(server, &dump);
        assert_eq!(keys_in(&std::fs::read_to_string(&dump).unwrap()), keys);
        assert_equal(&verify(server, &["--against", dump.to_str().unwrap()]), &server.name());
    });
}

/// Another server of the same binary.
fn found_again(server: &Server) -> Server {
    found().into_iter().find(|binary| binary.name() == server.name()).unwrap().start(&[]).unwrap()
}

#[test]
fn nothing_of_keyfolds_own_is_exported() {
    on_every_server(|server, dir| {
        let proxy = Subject::start(server, LAYOUT).unwrap();
        let keys = fill(&mut keyfold_testkit::Wire::connect(proxy.address()).unwrap());
        let dump = dir.join("dump.jsonl");
        export(server, &dump);
        let text = std::fs::read_to_string(&dump).unwrap();
        assert_eq!(keys_in(&text), keys, "{}", server.name());
        assert!(!text.contains("\"key\":\"~") && !text.contains("keyfold:"), "{text}");
        assert!(text.contains("{\"key\":\"user:2\",\"value\":\"\"}\n"), "{text}");
        assert!(!text.contains("user:10\""), "it has expired: {text}");
        // Standard output says the same, whatever the order.
        let ran = keyfold(&["export", &server.url()]);
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&ran.stdout), sorted(&text));
    });
}

#[test]
fn keys_that_are_there_are_kept_or_replaced() {
    on_every_server(|server, dir| {
        let proxy = Subject::start(server, LAYOUT).unwrap();
        let mut wire = keyfold_testkit::Wire::connect(proxy.address()).unwrap();
        let keys = fill(&mut wire);
        let dump = dir.join("dump.jsonl");
        export(server, &dump);
        let long = vec![b'y'; 500];
        for command in [
            &[&b"SET"[..], b"user:1", b"other"][..],
            &[b"SET", b"user:3", &long],
            &[b"PERSIST", b"user:4"],
            &[b"SET", b"user:7", b"short"],
            &[b"DEL", b"list"],
            &[b"SADD", b"list", b"now a set"],
            &[b"HSET", b"hash", b"f", b"changed"],
            &[b"DEL", b"plain"],
        ] {
            assert_ne!(wire.call(command).unwrap()[0], b'-');
        }
        let ran = verify(server, &["--against", dump.to_str().unwrap()]);
        assert_eq!(ran.code, Some(4), "{}", ran.stdout);
        for line in ["value:   \"user:1\"", "expiry:  \"user:4\" expires at", "missing: \"plain\"", "value:   \"list\""]
        {
            assert!(ran.stdout.contains(line), "{line} in {}", ran.stdout);
        }

        let ran = import(server, &dump, &["--dry-run"]);
        assert_eq!(ran.code, Some(3));
        assert!(ran.stdout.starts_with(&format!("1 of {keys} keys would be written")), "{}", ran.stdout);
        let ran = import(server, &dump, &[]);
        assert_eq!(ran.code, Some(3), "{}", ran.stdout);
        for line in [
            &format!("1 of {keys} keys written")[..],
            "6 there already with something else",
            "\"user:4\": has another expiry",
            "\"list\": has another type",
            "\"hash\": has other elements",
        ] {
            assert!(ran.stdout.contains(line), "{}: {line} in {}", server.name(), ran.stdout);
        }
        assert_eq!(wire.call(&[b"GET", b"user:1"]).unwrap(), b"$5\r\nother\r\n");

        // Beside the proxy, which sees the values at once.
        let ran = import(server, &dump, &["--replace"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stdout);
        assert_eq!(wire.call(&[b"GET", b"user:1"]).unwrap(), b"$2\r\nv1\r\n");
        assert_equal(&verify(server, &["--against", dump.to_str().unwrap()]), &server.name());
    });
}

#[test]
fn databases_are_kept_apart() {
    on_every_server(|server, dir| {
        let proxy = Subject::start(server, LAYOUT).unwrap();
        let mut wire = keyfold_testkit::Wire::connect(proxy.address()).unwrap();
        for database in [&b"0"[..], b"3", b"9"] {
            wire.call(&[b"SELECT", database]).unwrap();
            wire.call(&[b"SET", b"user:1", database]).unwrap();
        }
        let dump = dir.join("dump.jsonl");
        export(server, &dump);
        assert_eq!(keys_in(&std::fs::read_to_string(&dump).unwrap()), 3);
        let one = keyfold(&["export", &server.url(), "--database", "3"]);
        assert_eq!(one.stdout, whole("{\"db\":3,\"key\":\"user:1\",\"value\":\"3\"}\n"));
        let named = keyfold(&["export", &format!("{}/9", server.url())]);
        assert_eq!(named.stdout, whole("{\"db\":9,\"key\":\"user:1\",\"value\":\"9\"}\n"));
        let other = found_again(server);
        push(&other, OTHER_LAYOUT);
        assert_eq!(import(&other, &dump, &[]).code, Some(0));
        assert_equal(&verify(&other, &["--against", dump.to_str().unwrap()]), &server.name());
        assert_equal(
            &verify(&other, &["--against", dump.to_str().unwrap(), "--database", "9"]),
            "one database, and what the dump says of it",
        );
        assert_eq!(import(&other, &dump, &["--database", "5"]).code, Some(3), "three keys of one name");
    });
}

#[test]
fn expiries_may_differ_by_the_tolerance() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    let dump = dir.path().join("dump.jsonl");
    let line = |at: i64| whole(&format!("{{\"key\":\"k\",\"value\":\"v\",\"expires_at_ms\":{at}}}\n"));
    std::fs::write(&dump, line(super::program::LATE_MS)).unwrap();
    assert_eq!(import(&server, &dump, &[]).code, Some(0));
    std::fs::write(&dump, line(super::program::LATE_MS + 50)).unwrap();
    let against = ["--against", dump.to_str().unwrap(), "--ttl-tolerance-ms"];
    assert_eq!(verify(&server, &[&against[..], &["49"]].concat()).code, Some(4));
    assert_equal(&verify(&server, &[&against[..], &["50"]].concat()), "within the tolerance");
    let json = verify(&server, &[&against[..], &["0", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let listed = &report["compared"]["differences"]["listed"][0];
    assert_eq!(listed["how"], "expiry");
    assert_eq!(listed["dump_expires_at_ms"], super::program::LATE_MS + 50);
}

#[test]
fn a_dump_may_come_by_a_pipe() {
    let Some(binary) = found().pop() else { return };
    let server = binary.start(&[]).unwrap();
    let url = server.url();
    let mut child =
        command(&["import", &url, "-", "--without-end"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for id in 0..5000 {
        writeln!(stdin, "{{\"key\":\"user:{id}\",\"value\":\"v\"}}").unwrap();
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(server.connect().unwrap().call(&[b"DBSIZE"]).unwrap(), b":5000\r\n");
    let paced = keyfold(&["export", &url, "--max-ops", "100000", "--allow-repeats"]);
    assert_eq!(keys_in(&paced.stdout), 5000);
}

#[test]
fn hashes_whose_fields_expire_go_where_they_can_be() {
    const HASHES: &str = "[[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 8 }\n";
    on_every_server(|server, dir| {
        let proxy = Subject::start(server, HASHES).unwrap();
        let mut wire = keyfold_testkit::Wire::connect(proxy.address()).unwrap();
        let late = super::program::LATE_MS.to_string();
        for command in [
            &[&b"HSET"[..], b"sess:1", b"a", b"1", b"b", b"2"][..],
            &[b"HPEXPIREAT", b"sess:1", late.as_bytes(), b"FIELDS", b"1", b"b"],
        ] {
            assert_ne!(wire.call(command).unwrap()[0], b'-', "{}", server.name());
        }
        let dump = dir.join("dump.jsonl");
        export(server, &dump);

        for binary in found() {
            let what = format!("{} to {}", server.name(), binary.name());
            let folded = binary.start(&[]).unwrap();
            let proxy = Subject::start(&folded, HASHES).unwrap();
            let ran = import(&folded, &dump, &[]);
            assert_eq!(ran.code, Some(0), "{what}: {}{}", ran.stdout, ran.stderr);
            let mut wire = keyfold_testkit::Wire::connect(proxy.address()).unwrap();
            let asked = wire.call(&[b"HPEXPIRETIME", b"sess:1", b"FIELDS", b"2", b"a", b"b"]).unwrap();
            assert_eq!(String::from_utf8(asked).unwrap(), format!("*2\r\n:-1\r\n:{late}\r\n"), "{what}");

            let plain = binary.start(&[]).unwrap();
            let ran = import(&plain, &dump, &[]);
            let times = plain.connect().unwrap().call(&[b"HPEXPIRETIME", b"sess:1", b"FIELDS", b"1", b"b"]).unwrap();
            if times.starts_with(b"-ERR unknown command") {
                assert_eq!(ran.code, Some(3), "{what}: {}{}", ran.stdout, ran.stderr);
                assert!(ran.stdout.contains("in folded hashes only: give it a namespace"), "{what}: {}", ran.stdout);
            } else {
                assert_eq!(ran.code, Some(0), "{what}: {}{}", ran.stdout, ran.stderr);
                assert_eq!(String::from_utf8(times).unwrap(), format!("*1\r\n:{late}\r\n"), "{what}");
            }
        }
        drop(proxy);
    });
}

#[test]
fn an_import_says_which_codecs_have_learned_nothing() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    push(&server, &LAYOUT.replacen("span = 128 }", "span = 128 }\ncodec = \"fsst\"", 1));
    let dump = dir.path().join("dump.jsonl");
    let lines: String =
        (0..2000).map(|id| format!("{{\"key\":\"user:{id}\",\"value\":\"the value of {id}\"}}\n")).collect();
    std::fs::write(&dump, whole(&lines)).unwrap();
    let says = |ran: Ran| (ran.code, ran.stdout.contains("keyfold train redis://"));
    assert_eq!(says(import(&server, &dump, &[])), (Some(0), true));
    assert_eq!(keyfold(&["doctor", &server.url()]).stdout.matches("hasn't learned").count(), 1);
    for command in ["train", "recode"] {
        assert_eq!(keyfold(&[command, &server.url()]).code, Some(0), "{command}");
    }
    assert_eq!(says(import(&server, &dump, &["--replace"])), (Some(0), false));
    assert!(!keyfold(&["doctor", &server.url()]).stdout.contains("hasn't learned"));
}
