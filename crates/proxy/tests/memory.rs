//! What idle connections and large values cost. Alone in its process, and one test after another, because each looks
//! at the process's memory.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

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

fn proxy_before(server: &Server, layout: &str) -> Handle {
    let mut config = Config::new(server.url().parse().unwrap(), Layout::parse_file(layout).unwrap());
    config.listen.push("127.0.0.1:0".parse().unwrap());
    server.put_in_force(&config.layout).unwrap();
    start(config).unwrap()
}

fn connect(proxy: &Handle) -> Wire {
    let ListenAddress::Tcp(address) = proxy.addresses()[0] else { unreachable!("it is TCP") };
    let wire = Wire::connect(address).unwrap();
    wire.set_timeout(Duration::from_secs(60)).unwrap();
    wire
}

#[test]
fn a_thousand_idle_clients_cost_less_than_ten_megabytes() {
    let _alone = ALONE.lock();
    let server = found().last().expect("a server on PATH").start(&[]).unwrap();
    let proxy = proxy_before(&server, "");
    connect(&proxy).call(&[b"PING"]).unwrap();

    let before = resident_bytes();
    let mut wires: Vec<_> = (0..CLIENTS).map(|_| connect(&proxy)).collect();
    for wire in &mut wires {
        assert_eq!(wire.call(&[b"SET", b"key", b"value"]).unwrap(), b"+OK\r\n");
    }
    assert_eq!(proxy.totals().clients, CLIENTS);
    let grown = resident_bytes().saturating_sub(before);
    println!("{CLIENTS} clients: {} kB, the test's own ends included", grown / 1000);
    assert!(grown < 10_000_000, "{grown} bytes");
}

/// The most memory that the process has while `work` is done, beyond what it has before.
fn peak_while(work: impl FnOnce()) -> usize {
    let (before, peak, over) = (resident_bytes(), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(resident_bytes(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
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
    let _alone = ALONE.lock();
    let server = found().last().expect("a server on PATH").start(&[]).unwrap();
    let proxy = proxy_before(&server, "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n");
    let mut wire = connect(&proxy);
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
