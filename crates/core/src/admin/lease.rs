//! Who does what one proxy at a time is enough for: walking over all to remove what has expired, and evicting.
//!
//! A lease only keeps proxies from doing the same work twice; nothing is wrong where two do it at once, or where it is
//! lost.

use super::{EVICT_KEY, SWEEP_KEY};
use crate::resp::{Reply, write_command};

/// A lease, as one proxy asks for it.
#[derive(Clone, Debug)]
pub struct Lease {
    key: &'static [u8],
    /// How long it holds when its holder is gone, in milliseconds.
    lasts_ms: u64,
    holder: String,
}

impl Lease {
    /// Of the sweep, for a proxy that drew this number.
    pub fn to_sweep(nonce: u64) -> Self {
        Self { key: SWEEP_KEY, lasts_ms: 30_000, holder: format!("{nonce:016x}") }
    }

    /// Of evicting. Memory is full soon where nobody does.
    pub fn to_evict(nonce: u64) -> Self {
        Self { key: EVICT_KEY, lasts_ms: 2_000, ..Self::to_sweep(nonce) }
    }

    /// How often its holder renews it, in milliseconds.
    pub fn renew_every_ms(&self) -> u64 {
        self.lasts_ms / 3
    }

    /// Asks for it, where nobody has it, and who has it then; how many replies that has.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        let lasts_ms = self.lasts_ms.to_string();
        write_command(wire, &[b"SET", self.key, self.holder.as_bytes(), b"NX", b"PX", lasts_ms.as_bytes()]);
        write_command(wire, &[b"GET", self.key]);
        2
    }

    /// Whether it is this proxy's, by those replies.
    pub fn is_held(&self, replies: &[Vec<u8>]) -> bool {
        let holder = replies.get(1).map(|reply| Reply::parse(reply));
        matches!(holder, Some(Ok(Reply::Bulk(holder))) if holder == self.holder.as_bytes())
    }

    /// Lets it last from now on; one reply, which says nothing.
    pub fn renew(&self, wire: &mut Vec<u8>) {
        write_command(wire, &[b"PEXPIRE", self.key, self.lasts_ms.to_string().as_bytes()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_by_who_is_named_there() {
        let lease = Lease::to_sweep(0xab);
        let replies = |holder: &str| vec![b"$-1\r\n".to_vec(), holder.as_bytes().to_vec()];
        assert!(lease.is_held(&replies("$16\r\n00000000000000ab\r\n")));
        assert!(!lease.is_held(&replies("$16\r\n00000000000000ac\r\n")));
        assert!(!lease.is_held(&replies("$-1\r\n")));
        assert!(!lease.is_held(&replies("-READONLY You can't write against a read only replica.\r\n")));
        assert!(!lease.is_held(&[]));
    }

    #[test]
    fn each_has_a_key_of_its_own() {
        let asked = |lease: Lease| {
            let mut wire = Vec::new();
            lease.ask(&mut wire);
            String::from_utf8(wire).unwrap()
        };
        assert!(
            asked(Lease::to_sweep(1)).contains("{home}:sweep") && asked(Lease::to_evict(1)).contains("{home}:evict")
        );
    }
}
