//! The program, and keyspaces for it.

use std::path::Path;
use std::process::{Command, Stdio};

use keyfold_testkit::{Server, Subject, Wire};

/// Ints, uuids and paths; the last without buckets.
pub(crate) const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n\
     [[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 16 }\n\
     [[namespace]]\nkeys = 'page:{path}'\n";

/// Other placements for the same keys, and other limits.
pub(crate) const OTHER_LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id}'\nbucket = { count = 7 }\nvalue_limit = 20\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 3 }\n";

/// Far enough for no test to see it: 2040.
pub(crate) const LATE_MS: i64 = 2_209_000_000_123;

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs keyfold to its end.
pub(crate) fn keyfold(args: &[&str]) -> Ran {
    let output = command(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// These lines as a whole dump.
pub(crate) fn whole(lines: &str) -> String {
    format!("{lines}{{\"end\":{{\"keys\":{}}}}}\n", lines.lines().count())
}

/// How many keys a dump has, by its lines but the last, which says how many there are.
pub(crate) fn keys_in(dump: &str) -> usize {
    let lines: Vec<&str> = dump.lines().collect();
    let end = format!("{{\"end\":{{\"keys\":{}}}}}", lines.len().saturating_sub(1));
    assert_eq!(lines.last(), Some(&end.as_str()));
    lines.len() - 1
}

/// Exports to a file; the code is to be 0.
pub(crate) fn export(server: &Server, path: &Path) {
    let ran = keyfold(&["export", &server.url(), "--out", path.to_str().unwrap(), "--force"]);
    assert_eq!(ran.code, Some(0), "{}: {}", server.name(), ran.stderr);
}

/// Imports a file.
pub(crate) fn import(server: &Server, path: &Path, options: &[&str]) -> Ran {
    let url = server.url();
    keyfold(&[&["import", &url, path.to_str().unwrap()], options].concat())
}

/// Verifies, with this layout's encodings or without.
pub(crate) fn verify(server: &Server, options: &[&str]) -> Ran {
    let url = server.url();
    keyfold(&[&["verify", &url, "--skip-encodings"], options].concat())
}

/// Brings a layout to a server, by a proxy that is gone when this returns.
pub(crate) fn push(server: &Server, layout: &str) {
    drop(Subject::start(server, layout).unwrap());
}

/// Every kind of key, value and expiry, written by a client of the proxy; how many keys live.
pub(crate) fn fill(wire: &mut Wire) -> usize {
    let late = LATE_MS.to_string();
    let long = vec![b'x'; 1000];
    let sets: &[&[&[u8]]] = &[
        &[b"user:1", b"v1"],
        &[b"user:2", b""],
        &[b"user:3", b"42"],
        &[b"user:4", b"42", b"PXAT", late.as_bytes()],
        &[b"user:5", b"\x01\xff\x00"],
        &[b"user:6", b"\xff", b"PXAT", late.as_bytes()],
        &[b"user:7", &long],
        &[b"user:8", &long, b"PXAT", late.as_bytes()],
        &[b"user:9", b"", b"PXAT", late.as_bytes()],
        // After 2054: the long form of an expiry.
        &[b"user:500", b"late", b"PXAT", b"3000000000000"],
        &[b"user:9223372036854775807", b"-9223372036854775808"],
        &[b"user:007", b"no int, so plain for one layout"],
        &[b"sess:123e4567-e89b-12d3-a456-426614174000", b"{\"json\":\"\xc3\xa9\"}"],
        &[b"page:\xff\n\"\\", b"binary name"],
        &[b"page:", b"empty path", b"PXAT", late.as_bytes()],
        &[b"plain\x00\xfe", b"\x00"],
        &[b"plain", b"{\"base64\":\"AA==\"}", b"PXAT", late.as_bytes()],
        &[b"", b"the empty key"],
    ];
    for set in sets {
        assert_eq!(wire.call(&[&[&b"SET"[..]], *set].concat()).unwrap(), b"+OK\r\n");
    }
    let others: &[&[&[u8]]] = &[
        &[b"RPUSH", b"list", b"a", b"", b"\xff"],
        &[b"HSET", b"hash", b"f", b"1", b"g", b"2"],
        &[b"SADD", b"set", b"x", b"y", b"z"],
        &[b"ZADD", b"zset", b"0.1", b"m", b"-inf", b"n"],
        &[b"XADD", b"stream", b"1-1", b"f", b"v"],
    ];
    for command in others {
        assert_ne!(wire.call(command).unwrap()[0], b'-');
    }
    assert_eq!(wire.call(&[b"PEXPIREAT", b"set", late.as_bytes()]).unwrap(), b":1\r\n");
    let big: Vec<Vec<u8>> = (0..600).map(|member| format!("member {member}").into_bytes()).collect();
    let args: Vec<&[u8]> = big.iter().map(Vec::as_slice).collect();
    wire.call(&[&[&b"SADD"[..], b"big set"], args.as_slice()].concat()).unwrap();
    // Expired before the export, and not yet swept.
    assert_eq!(wire.call(&[b"SET", b"user:10", b"gone", b"PX", b"1"]).unwrap(), b"+OK\r\n");
    // A spilled value that was replaced.
    wire.call(&[b"SET", b"user:7", &[&long[..], b"!"].concat()]).unwrap();
    while wire.call(&[b"EXISTS", b"user:10"]).unwrap() != b":0\r\n" {}
    sets.len() + others.len() + 1
}
