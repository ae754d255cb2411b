//! What connections, large values, and clients that don't read or don't end their requests cost. Alone in its process, and one test after another, because each looks
//! at the process's memory.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::layout::Layout;
use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::{Server, Wire, found};

const CLIENTS: usize = 1000;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A server with a proxy before it, in this process.
struct Stage {
    server: Server,
    proxy: Handle,
    _alone: MutexGuard<'static, ()>,
}

const USERS: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";

impl Stage {
    fn new(layout: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let server = found().last().expect("a server on PATH").start(&[]).unwrap();
        let mut config = Config::new(server.url().parse().unwrap(), Layout::parse_file(layout).unwrap());
        config.listen.push("127.0.0.1:0".parse().unwrap());
        server.put_in_force(&config.layout).unwrap();
        Self { proxy: start(config).unwrap(), server, _alone: alone }
    }

    fn address(&self) -> SocketAddr {
        let ListenAddress::Tcp(address) = self.proxy.addresses()[0] else { unreachable!("it is TCP") };
        address
    }

    fn connect(&self) -> Wire {
        let wire = Wire::connect(self.address()).unwrap();
        wire.set_timeout(Duration::from_secs(60)).unwrap();
        wire
    }
}

/// Sends one command, words split at spaces, and returns the reply's bytes as text.
fn call(wire: &mut Wire, text: &str) -> String {
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    String::from_utf8(wire.call(&words).unwrap()).unwrap()
}

#[test]
fn a_thousand_idle_clients_cost_less_than_ten_megabytes() {
    let stage = Stage::new("");
    stage.connect().call(&[b"PING"]).unwrap();

    let before = resident_bytes();
    let mut wires: Vec<_> = (0..CLIENTS).map(|_| stage.connect()).collect();
    for wire in &mut wires {
        assert_eq!(wire.call(&[b"SET", b"key", b"value"]).unwrap(), b"+OK\r\n");
    }
    assert_eq!(stage.proxy.totals().clients, CLIENTS);
    let grown = resident_bytes().saturating_sub(before);
    println!("{CLIENTS} clients: {} kB, the test's own ends included", grown / 1000);
    assert!(grown < 10_000_000, "{grown} bytes");
}

/// The most memory that the process has while `work` is done, beyond what it has before.
fn peak_while(work: impl FnOnce()) -> usize {
    let (before, peak, over) = (resident_bytes(), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(resident_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let done = std::panic::catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic));
    });
    peak.load(Ordering::Relaxed).saturating_sub(before)
}

#[test]
fn two_hundred_megabytes_are_worked_on_without_being_held() {
    let stage = Stage::new(USERS);
    let mut wire = stage.connect();
    wire.call(&[b"SET", b"user:1", b"small"]).unwrap();
    let peak = peak_while(|| {
        for (command, reply) in [
            ("SETRANGE user:1 200000000 x", ":200000001"),
            ("SETBIT user:1 800000000 1", ":0"),
            ("APPEND user:1 y", ":200000002"),
            ("BITFIELD user:1 SET u8 #3 77", "*1\r\n:108"),
            ("GETBIT user:1 800000000", ":1"),
            ("BITCOUNT user:1 200000000 -1", ":9"),
            ("GETRANGE user:1 199999999 -1", "$3\r\n\0xy"),
            ("STRLEN user:1", ":200000002"),
            ("EXPIRE user:1 1000", ":1"),
            ("TTL user:1", ":1000"),
            ("EXISTS user:1", ":1"),
            ("PERSIST user:1", ":1"),
            ("RENAME user:1 user:2", "+OK"),
            ("COPY user:2 user:3", ":1"),
            ("WATCH user:2 user:3", "+OK"),
            ("MULTI", "+OK"),
            ("SETRANGE user:2 5 abc", "+QUEUED"),
            ("STRLEN user:2", "+QUEUED"),
            ("EXEC", "*2\r\n:200000002\r\n:200000002"),
            ("RENAME user:3 plain", "+OK"),
            ("STRLEN plain", ":200000002"),
            ("DEL user:2 plain", ":2"),
        ] {
            let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let found = wire.call(&args).unwrap();
            let expected: Vec<u8> = format!("{reply}\r\n").chars().map(|char| u8::try_from(char).unwrap()).collect();
            assert!(found == expected, "{command}: {}", found[..found.len().min(80)].escape_ascii());
        }
    });
    println!("values of 200 MB: {} kB more at most", peak / 1000);
    assert!(peak < 8 << 20, "{peak} bytes");
}

#[test]
fn a_client_that_does_not_read_harms_nobody() {
    let stage = Stage::new("");
    let mut other = stage.connect();
    let value = "x".repeat(10_000);
    call(&mut other, &format!("SET value {value}"));
    let before = resident_bytes();

    // Asks for 1 GB and reads nothing, until nobody takes its requests any more.
    let mut slow = TcpStream::connect(stage.address()).unwrap();
    slow.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let request = b"GET value\r\n".repeat(1000);
    let stuck = (0..100).any(|_| slow.write_all(&request).is_err());
    assert!(stuck || resident_bytes().saturating_sub(before) < 64 << 20);
    for n in 0..100 {
        assert_eq!(call(&mut other, &format!("SET other {n}")), "+OK\r\n");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

#[test]
fn a_watch_keeps_no_values() {
    let stage = Stage::new(USERS);
    let mut writer = stage.connect();
    let value = vec![b'x'; 20 << 20];
    for key in [&b"plain"[..], b"user:1"] {
        assert_eq!(writer.call(&[b"SET", key, &value]).unwrap(), b"+OK\r\n");
    }
    let before = resident_bytes();
    let mut watchers: Vec<_> = (0..8).map(|_| stage.connect()).collect();
    for watcher in &mut watchers {
        assert_eq!(call(watcher, "WATCH plain user:1"), "+OK\r\n");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    // They still tell a change, of a value that lies beside its bucket too.
    call(&mut writer, "APPEND user:1 y");
    for watcher in &mut watchers {
        let answers = ["MULTI", "SET user:2 a", "EXEC"].map(|command| call(watcher, command));
        assert_eq!(answers, ["+OK\r\n", "+QUEUED\r\n", "*-1\r\n"]);
    }
}

#[test]
fn half_a_request_takes_no_more_than_has_come_of_it() {
    let stage = Stage::new("");
    let mut other = stage.connect();
    call(&mut other, "SET a 1");
    let before = resident_bytes();
    let heads: [&[u8]; 4] =
        [b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000000\r\nx", b"*1000000\r\n$3\r\nDEL\r\n", b"*2\r\n$3\r\nGE", b"SET a "];
    let halves: Vec<_> = heads
        .iter()
        .cycle()
        .take(200)
        .map(|head| {
            let mut wire = stage.connect();
            wire.send_bytes(head).unwrap();
            wire
        })
        .collect();
    for n in 0..100 {
        assert_eq!(call(&mut other, &format!("SET other {n}")), "+OK\r\n");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    let deadline = Instant::now() + Duration::from_secs(60);
    while stage.proxy.totals().clients != halves.len() + 1 {
        assert!(Instant::now() < deadline, "all of them are there still");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_client_does_not_take_waits_in_the_server() {
    let stage = Stage::new("");
    let mut direct = stage.server.connect().unwrap();
    let value = vec![b'x'; 150 << 20];
    direct.set_timeout(Duration::from_secs(60)).unwrap();
    direct.call(&[b"SET", b"huge", &value]).unwrap();
    direct.call(&[b"SET", b"large", &value[..1 << 20]]).unwrap();
    let (mut slow, mut other) = (stage.connect(), stage.connect());
    call(&mut slow, "GET large");
    let before = resident_bytes();
    slow.send(&[b"GET", b"huge"]).unwrap();
    for n in 0..200 {
        assert_eq!(call(&mut other, &format!("SET other {n}")), "+OK\r\n");
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    assert!(slow.reply().unwrap().ends_with(b"xx\r\n"));
    assert_eq!(call(&mut slow, "STRLEN huge"), format!(":{}\r\n", value.len()));
}

#[test]
fn members_in_parts_that_a_client_does_not_take_wait_in_the_server() {
    const MEMBERS: usize = 250_000;
    let stage = Stage::new("[[namespace]]\nkeys = \"tags:{id:int}\"\ntype = \"set\"\nbucket = { span = 64 }\n");
    let mut other = stage.connect();
    for from in (0..MEMBERS).step_by(500) {
        let members: Vec<String> = (from..from + 500).map(|number| format!("{number:060}")).collect();
        assert_eq!(call(&mut other, &format!("SADD tags:1 {}", members.join(" "))), ":500\r\n");
    }
    // 17 MB, and the buffers of the sockets take some of it.
    let mut slow = stage.connect();
    let before = resident_bytes();
    slow.send(&[b"SMEMBERS", b"tags:1"]).unwrap();
    for n in 0..200 {
        assert_eq!(call(&mut other, &format!("SET other {n}")), "+OK\r\n");
        thread::sleep(Duration::from_millis(5));
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{} kB more", grown / 1000);
    assert!(grown < 4 << 20, "{grown} bytes more");
    let answer = slow.reply().unwrap();
    assert!(answer.starts_with(format!("*{MEMBERS}\r\n$60\r\n").as_bytes()));
    let mut found: Vec<&[u8]> = answer.split(|byte| *byte == b'\n').skip(2).step_by(2).collect();
    found.sort_unstable();
    assert_eq!(found.len(), MEMBERS);
    assert!(found.iter().enumerate().all(|(number, member)| *member == format!("{number:060}\r").as_bytes()));
    assert_eq!(call(&mut slow, "SCARD tags:1"), format!(":{MEMBERS}\r\n"));
}
