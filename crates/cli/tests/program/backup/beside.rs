//! What a key holds beside its elements: when fields of a hash expire, and a stream's groups.

use std::thread::sleep;
use std::time::Duration;

use keyfold_testkit::{Subject, Wire, found};
use tempfile::TempDir;

use super::program::{export, import, verify};

const LAYOUT: &str = r#"
    [[namespace]]
    keys = "session:{id:int}"
    type = "hash"
    bucket = { span = 100 }
    value_limit = 192
"#;

const FAR_MS: &str = "2000000000000";

fn call(wire: &mut Wire, words: &str) -> Vec<u8> {
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    wire.call(&args).unwrap()
}

fn write(wire: &mut Wire, words: &str) {
    let answer = call(wire, words);
    assert_ne!(answer[0], b'-', "{words}: {}", answer.escape_ascii());
}

#[test]
fn it_is_compared() {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let proxy = Subject::start(&server, LAYOUT).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        let mut hashes = vec!["session:1"];
        write(&mut wire, "HSET hash f 1 g 2");
        if call(&mut wire, &format!("HPEXPIREAT hash {FAR_MS} FIELDS 1 f"))[0] != b'-' {
            hashes.push("hash");
        }
        write(&mut wire, "HSET session:1 f 1 g 2");
        write(&mut wire, &format!("HPEXPIREAT session:1 {FAR_MS} FIELDS 1 f"));
        for entry in ["1-1", "2-1", "3-1"] {
            write(&mut wire, &format!("XADD stream {entry} f v"));
        }
        write(&mut wire, "XGROUP CREATE stream group 0");
        write(&mut wire, "XREADGROUP GROUP group one COUNT 2 STREAMS stream >");
        let dump = dir.path().join("dump.jsonl");
        export(&server, &dump);
        let verified = || verify(&server, &["--against", dump.to_str().unwrap()]);
        assert_eq!(verified().code, Some(0), "{}: {}", server.name(), verified().stdout);
        let imported = |code: i32, words: &str| {
            let ran = import(&server, &dump, &[]);
            assert_eq!(ran.code, Some(code), "{}: {}{}", server.name(), ran.stdout, ran.stderr);
            assert!(ran.stdout.contains(words), "{}: {}", server.name(), ran.stdout);
        };
        imported(0, "3 there already, the same");
        let expires = |key: &str, at: &str| format!("HPEXPIREAT {key} {at} FIELDS 1 f");
        for key in hashes {
            for change in [format!("HPERSIST {key} FIELDS 1 f"), expires(key, "2000000000001")] {
                write(&mut wire, &change);
                let ran = verified();
                assert_eq!(ran.code, Some(4), "{}: {change}: {}", server.name(), ran.stdout);
                assert!(ran.stdout.contains(&format!("value:   \"{key}\"")), "{change}: {}", ran.stdout);
                imported(3, "has fields with another expiry");
                write(&mut wire, &expires(key, FAR_MS));
                assert_eq!(verified().code, Some(0), "{}: {change}", server.name());
            }
        }
        write(&mut wire, "XACK stream group 1-1");
        assert_eq!(verified().code, Some(4), "{}: acknowledged", server.name());
        imported(3, "has other consumer groups");
        write(&mut wire, "DEL stream");
        assert_eq!(import(&server, &dump, &[]).code, Some(0));
        assert_eq!(verified().code, Some(0), "{}: back", server.name());
        write(&mut wire, "XGROUP CREATE stream other $");
        assert_eq!(verified().code, Some(4), "{}: another group", server.name());
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn a_set_of_more_members_than_are_read_as_a_whole_is_compared_member_by_member() {
    let Some(binary) = found().pop() else { return };
    let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
    let layout = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\n";
    let proxy = Subject::start(&server, layout).unwrap();
    let mut wire = Wire::connect(proxy.address()).unwrap();
    for start in (0..1_100_000).step_by(5000) {
        let members: String = (start..start + 5000).map(|member| format!(" {member}")).collect();
        write(&mut wire, &format!("SADD tags:1{members}"));
    }
    let dump = dir.path().join("dump.jsonl");
    export(&server, &dump);
    let ran = import(&server, &dump, &[]);
    assert!(ran.code == Some(0) && ran.stdout.contains("1 there already, the same"), "{}{}", ran.stdout, ran.stderr);
    write(&mut wire, "SREM tags:1 77");
    let ran = import(&server, &dump, &[]);
    assert!(ran.code == Some(3) && ran.stdout.contains("has other elements"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_field_that_has_expired_since_is_not_missed() {
    for binary in found() {
        let (server, dir) = (binary.start(&[]).unwrap(), TempDir::new().unwrap());
        let proxy = Subject::start(&server, LAYOUT).unwrap();
        let mut wire = Wire::connect(proxy.address()).unwrap();
        let mut expiring = 0;
        for key in ["session:1", "hash"] {
            write(&mut wire, &format!("HSET {key} f 1 g 2"));
            write(&mut wire, &format!("HSET {key}0 f 1"));
            for one in [key.to_owned(), format!("{key}0")] {
                if call(&mut wire, &format!("HPEXPIRE {one} 1500 FIELDS 1 f"))[0] != b'-' {
                    expiring += 1;
                }
            }
        }
        assert!([2, 4].contains(&expiring));
        let dump = dir.path().join("dump.jsonl");
        export(&server, &dump);
        assert_eq!(call(&mut wire, "HLEN session:1"), b":2\r\n", "the machine is too slow for this test");
        sleep(Duration::from_millis(1600));
        assert_eq!(call(&mut wire, "HLEN session:1"), b":1\r\n");
        let ran = verify(&server, &["--against", dump.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{}: {}", server.name(), ran.stdout);
        let ran = import(&server, &dump, &[]);
        assert!(ran.code == Some(0) || ran.code == Some(3), "{}", ran.stderr);
        assert!(!ran.stdout.contains("has other elements"), "{}: {}", server.name(), ran.stdout);
        write(&mut wire, "HSET session:1 g 3");
        let ran = verify(&server, &["--against", dump.to_str().unwrap()]);
        assert_eq!(ran.code, Some(4), "{}: {}", server.name(), ran.stdout);
    }
}
