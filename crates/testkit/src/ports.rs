//! Free ports for servers that go away and come back.
//!
//! The port that the system hands out for 0 lies where it also takes the ports of outgoing connections from: while a
//! server is down, any connection of any process may take its port. These ports lie below, so that a server that was
//! killed finds its own still free.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above what well-known services take, and below where Linux takes ports for outgoing connections (32,768).
const PORTS: Range<u16> = 15_000..32_000;
/// Between finding a port free and the server taking it, another process may take it first.
const TRIES: usize = 8;

/// Where the next search begins: another place in each process, and onwards in one.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(PORTS) >> 32));

/// A port on 127.0.0.1 that nobody listens at, and that nobody else in this process was given.
///
/// # Errors
/// Where there is none.
pub fn free() -> io::Result<u16> {
    for _ in PORTS {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(step).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no port of 127.0.0.1 is free"))
}

/// Starts a server once more where another process took its port between [`free`] and its start.
pub(crate) fn retried<T, E>(mut start: impl FnMut() -> Result<T, E>, is_taken: impl Fn(&E) -> bool) -> Result<T, E> {
    let mut tries = 1;
    loop {
        match start() {
            Err(error) if tries < TRIES && is_taken(&error) => tries += 1,
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: std::collections::BTreeSet<u16> = (0..100).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 100);
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }
}
