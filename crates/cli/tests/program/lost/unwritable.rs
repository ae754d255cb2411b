//! A server that takes no writes: reads are served as the plain server serves them, by a keyfold that starts then too,
//! and a write gets the server's own error.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::{Server, Wire};

use super::stage::{Stage, get, keys, on_every_server};

/// A state in which a server takes no writes.
struct State {
    /// The code of its errors.
    code: &'static str,
    begin: fn(&Server),
    /// What ends it.
    end: &'static [&'static str],
}

const STATES: [State; 4] = [
    State {
        code: "-OOM ",
        begin: |server| tell(server, &["CONFIG", "SET", "maxmemory", "1"]),
        end: &["CONFIG", "SET", "maxmemory", "0"],
    },
    State {
        code: "-NOREPLICAS ",
        begin: |server| tell(server, &["CONFIG", "SET", "min-replicas-to-write", "1"]),
        end: &["CONFIG", "SET", "min-replicas-to-write", "0"],
    },
    State {
        code: "-READONLY ",
        begin: |server| tell(server, &["REPLICAOF", "127.0.0.1", "1"]),
        end: &["REPLICAOF", "NO", "ONE"],
    },
    State { code: "-MISCONF ", begin: fail_to_save, end: &["CONFIG", "SET", "save", ""] },
];

fn tell(server: &Server, command: &[&str]) {
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    assert_eq!(server.connect().unwrap().call(&words).unwrap(), b"+OK\r\n", "{command:?}");
}

/// Has the server try to save where a directory has the name of its file.
fn fail_to_save(server: &Server) {
    let mut wire = server.connect().unwrap();
    let mut setting = |name: &[u8]| {
        let reply = wire.call(&[b"CONFIG", b"GET", name]).unwrap();
        String::from_utf8(reply).unwrap().lines().nth(4).unwrap().to_owned()
    };
    let file = Path::new(&setting(b"dir")).join(setting(b"dbfilename"));
    fs::create_dir_all(file).unwrap();
    tell(server, &["CONFIG", "SET", "save", "3600 100000"]);
    assert!(wire.call(&[b"BGSAVE"]).unwrap().starts_with(b"+"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !wire.call(&[b"SET", b"probe", b""]).unwrap().starts_with(b"-MISCONF ") {
        assert!(Instant::now() < deadline, "it never takes saving for failed");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn reads_go_on_and_writes_get_the_servers_own_error() {
    on_every_server(|binary, what| {
        let stage = Stage::folded(binary, &[]);
        let running = stage.keyfold();
        for State { code, begin, end } in STATES {
            begin(&stage.server);
            let started = stage.keyfold();
            for (name, keyfold) in [("running", &running), ("started then", &started)] {
                let what = format!("{what}: {code}, {name}");
                let mut wire = Wire::connect(keyfold.address()).unwrap();
                for (key, value) in keys().skip(10).step_by(9) {
                    assert_eq!(get(&mut wire, &key), Ok(Some(value)), "{what}: {key}");
                }
                let many = wire.call(&[b"MGET", b"user:1", b"order:1", b"user:2"]).unwrap();
                assert!(many.starts_with(b"*3\r\n$9\r\nof user:1\r\n$10\r\nof order:1\r\n"), "{what}: {many:?}");
                assert_eq!(wire.call(&[b"TTL", b"user:1"]).unwrap(), b":-1\r\n", "{what}");
                let commands: [&[&[u8]]; 5] = [
                    &[b"SET", b"user:1", b"other"],
                    &[b"APPEND", b"user:1", b"more"],
                    &[b"INCR", b"user:100000"],
                    &[b"SET", b"user:1", b"long", b"EX", b"100"],
                    &[b"MSET", b"user:1", b"a", b"order:1", b"b"],
                ];
                for command in commands {
                    let reply = String::from_utf8(wire.call(command).unwrap()).unwrap();
                    let command = command[0].escape_ascii();
                    assert!(reply.starts_with(code), "{what}: {command}: {reply}");
                }
                assert_eq!(wire.call(&[b"MULTI"]).unwrap(), b"+OK\r\n");
                let queued = wire.call(&[b"SET", b"user:1", b"other"]).unwrap();
                let executed = wire.call(&[b"EXEC"]).unwrap();
                let texts = [queued, executed].map(|reply| String::from_utf8(reply).unwrap());
                let is_told = texts[0].starts_with(code) && texts[1].starts_with("-EXECABORT ");
                let is_told_later = texts[0] == "+QUEUED\r\n" && texts[1].contains(&code[..code.len() - 1]);
                assert!(is_told || is_told_later, "{what}: {texts:?}");
                assert_eq!(get(&mut wire, "user:1"), Ok(Some("of user:1".to_owned())), "{what}: nothing is written");
            }
            if code == "-OOM " {
                // What makes room is taken, as by the server itself.
                let mut wire = Wire::connect(started.address()).unwrap();
                assert_eq!(wire.call(&[b"DEL", b"user:3", b"order:3"]).unwrap(), b":2\r\n", "{what}");
                assert_eq!(wire.call(&[b"EXISTS", b"user:3", b"order:3"]).unwrap(), b":0\r\n", "{what}");
            }
            tell(&stage.server, end);
            let mut wire = Wire::connect(started.address()).unwrap();
            let until = Instant::now() + Duration::from_secs(60);
            while wire.call(&[b"SET", b"user:1", b"of user:1"]).unwrap() != b"+OK\r\n" {
                assert!(Instant::now() < until, "{what}: {code}: it never takes writes again");
            }
        }
    });
}
