//! One set of very many members: all of them are counted and found while it grows in parts, and nothing is left once they are gone.

use std::fmt::Display;
use std::time::Instant;

use keyfold_testkit::patience::wait_for;
use keyfold_testkit::{Server, Subject, Wire, newest};

const LAYOUT: &str = "[[namespace]]\nkeys = \"set:{id:int}\"\ntype = \"set\"\nbucket = { count = 2 }\n";
/// Members of a command, and commands that are sent before any is answered.
const EACH: u64 = 100;
const AT_ONCE: u64 = 20;
/// By so much a server's memory differs by connections and what it keeps of scripts.
const STIRS_BYTES: u64 = 2 << 20;

/// Each once, in no order.
fn member(number: u64) -> String {
    (number * 7_919 % 100_000_007).to_string()
}

/// Sends a command on all members, so many at a time; each answer must be the one that so many members have.
fn on_all(wire: &mut Wire, command: &str, members: u64, answer: impl Fn(u64) -> Vec<u8>) {
    let began = Instant::now();
    let starts: Vec<u64> = (0..members).step_by(usize::try_from(EACH).unwrap()).collect();
    for some in starts.chunks(usize::try_from(AT_ONCE).unwrap()) {
        for start in some {
            let names: Vec<String> = (*start..members.min(start + EACH)).map(member).collect();
            let words = [command, "set:1"].into_iter().chain(names.iter().map(String::as_str));
            wire.send(&words.map(str::as_bytes).collect::<Vec<_>>()).unwrap();
        }
        for start in some {
            let reply = wire.reply().unwrap();
            assert!(reply == answer(EACH.min(members - start)), "{command} from {start}: {}", reply.escape_ascii());
        }
    }
    eprintln!("{command} of {members}: {:.0?}", began.elapsed());
}

fn integer(number: impl Display) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

fn used_memory(server: &Server) -> u64 {
    let info = server.connect().unwrap().ask(&[b"INFO", b"memory"]).unwrap();
    let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
    info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim_end().parse().ok()).unwrap()
}

fn come_and_go(members: u64, most_bytes_each: f64) {
    let server = newest("").unwrap().start(&[]).unwrap();
    let subject = Subject::start(&server, LAYOUT).unwrap();
    let mut wire = Wire::connect(subject.address()).unwrap();
    // Scripts and connections are there before.
    on_all(&mut wire, "SADD", 1000, integer);
    on_all(&mut wire, "SREM", 1000, integer);
    let before = used_memory(&server);
    on_all(&mut wire, "SADD", members, integer);
    assert_eq!(wire.call(&[b"SCARD", b"set:1"]).unwrap(), integer(members));
    #[expect(clippy::cast_precision_loss, reason = "bytes and members stay far below 2⁵³")]
    let bytes_each = used_memory(&server).saturating_sub(before) as f64 / members as f64;
    eprintln!("{bytes_each:.2} bytes each, {}", server.name());
    assert!(bytes_each < most_bytes_each, "{bytes_each:.2} bytes each");
    let all_there =
        |count: u64| format!("*{count}\r\n{}", ":1\r\n".repeat(usize::try_from(count).unwrap())).into_bytes();
    on_all(&mut wire, "SMISMEMBER", members, all_there);
    assert_eq!(wire.call(&[b"SISMEMBER", b"set:1", b"none"]).unwrap(), integer(0));
    // Each of a walk's steps has some hundred members; none is missed and none comes twice where nothing changes.
    let (mut cursor, mut seen) = (b"0".to_vec(), 0);
    loop {
        let page = wire.ask(&[b"SSCAN", b"set:1", &cursor, b"COUNT", b"1000"]).unwrap();
        let page = page.elements().unwrap();
        seen += page[1].elements().unwrap().len() as u64;
        cursor = page[0].bytes().unwrap().to_vec();
        if cursor == b"0" {
            break;
        }
    }
    assert_eq!(seen, members);
    on_all(&mut wire, "SREM", members, integer);
    assert_eq!(wire.call(&[b"EXISTS", b"set:1"]).unwrap(), integer(0));
    let mut direct = server.connect().unwrap();
    wait_for("nothing is left", std::time::Duration::from_secs(60), || {
        let left = direct.call(&[b"KEYS", b"~*"]).map_err(|error| error.to_string())?;
        if left == b"*0\r\n" { Ok(()) } else { Err(left.escape_ascii().to_string()) }
    })
    .unwrap();
    let after = used_memory(&server);
    assert!(after < before + STIRS_BYTES, "{after} bytes, and {before} before");
}

#[test]
fn a_hundred_thousand_members_come_and_go() {
    come_and_go(100_000, 6.0);
}

/// Ten millions: 38,000 parts.
#[test]
#[ignore = "takes long: `make test-long`"]
fn ten_million_members_come_and_go() {
    come_and_go(10_000_000, 5.2);
}
