//! Who walks over all to remove what has expired: one proxy at a time.
//!
//! The lease only keeps proxies from doing the same work twice; nothing is wrong where two sweep at once, or where it
//! is lost.

use super::SWEEP_KEY;
use crate::resp::{Reply, write_command};

/// How long it holds when its holder is gone, in milliseconds.
const LASTS_MS: &[u8] = b"30000";

/// How often its holder renews it, in milliseconds.
pub const RENEW_EVERY_MS: u64 = 10_000;

/// The lease, as one proxy asks for it.
#[derive(Clone, Debug)]
pub struct SweepLease {
    holder: String,
}

impl SweepLease {
    /// For a proxy that drew this number.
    pub fn new(nonce: u64) -> Self {
        Self { holder: format!("{nonce:016x}") }
    }

    /// Asks for it, where nobody has it, and who has it then; how many replies that has.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        write_command(wire, &[b"SET", SWEEP_KEY, self.holder.as_bytes(), b"NX", b"PX", LASTS_MS]);
        write_command(wire, &[b"GET", SWEEP_KEY]);
        2
    }

    /// Whether it is this proxy's, by those replies.
    pub fn is_held(&self, replies: &[Vec<u8>]) -> bool {
        let holder = replies.get(1).map(|reply| Reply::parse(reply));
        matches!(holder, Some(Ok(Reply::Bulk(holder))) if holder == self.holder.as_bytes())
    }

    /// Lets it last from now on; one reply, which says nothing.
    pub fn renew(&self, wire: &mut Vec<u8>) {
        write_command(wire, &[b"PEXPIRE", SWEEP_KEY, LASTS_MS]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_by_who_is_named_there() {
        let lease = SweepLease::new(0xab);
        let replies = |holder: &str| vec![b"$-1\r\n".to_vec(), holder.as_bytes().to_vec()];
        assert!(lease.is_held(&replies("$16\r\n00000000000000ab\r\n")));
        assert!(!lease.is_held(&replies("$16\r\n00000000000000ac\r\n")));
        assert!(!lease.is_held(&replies("$-1\r\n")));
        assert!(!lease.is_held(&replies("-READONLY You can't write against a read only replica.\r\n")));
        assert!(!lease.is_held(&[]));
    }
}
