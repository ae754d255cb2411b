//! What idle connections cost. Alone in its process, because it looks at the process's memory.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;

use keyfold_core::layout::Layout;
use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::{Config, start};
use keyfold_testkit::{Wire, found};

const CLIENTS: usize = 1000;

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_thousand_idle_clients_cost_less_than_ten_megabytes() {
    let server = found().last().expect("a server on PATH").start(&[]).unwrap();
    let mut config = Config::new(server.url().parse().unwrap(), Layout::parse_file("").unwrap());
    config.listen.push("127.0.0.1:0".parse().unwrap());
    let proxy = start(config).unwrap();
    let ListenAddress::Tcp(address) = proxy.addresses()[0] else { unreachable!("it is TCP") };
    let mut first = Wire::connect(address).unwrap();
    first.call(&[b"PING"]).unwrap();

    let before = resident_bytes();
    let mut wires: Vec<_> = (0..CLIENTS).map(|_| Wire::connect(address).unwrap()).collect();
    for wire in &mut wires {
        assert_eq!(wire.call(&[b"SET", b"key", b"value"]).unwrap(), b"+OK\r\n");
    }
    assert_eq!(proxy.totals().clients, CLIENTS + 1);
    let grown = resident_bytes().saturating_sub(before);
    println!("{CLIENTS} clients: {} kB, the test's own ends included", grown / 1000);
    assert!(grown < 10_000_000, "{grown} bytes");
}
