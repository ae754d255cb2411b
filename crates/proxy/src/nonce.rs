//! Numbers that are never drawn twice, by any proxy.
//!
//! A worker draws 64 random bits when it starts and counts from there; a bijection (the finalizer of
//! SplitMix64) spreads the count over all 64 bits. Within a worker no number comes twice before 2^64 draws.
//! Two workers collide only where their random starts lie closer together than the numbers they draw: for a
//! thousand workers of a billion draws each, with probability below 2^-13; and a collision harms only where
//! both stand for the same key.

use std::cell::Cell;

/// A worker's source of nonces, or a tool's that writes beside proxies.
#[derive(Debug)]
pub struct Nonces {
    next: Cell<u64>,
}

impl Nonces {
    /// A source that starts at a random place.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn new() -> Result<Self, getrandom::Error> {
        Ok(Self { next: Cell::new(getrandom::u64()?) })
    }

    /// A number that this source never gives again.
    pub fn draw(&self) -> u64 {
        let count = self.next.get().wrapping_add(1);
        self.next.set(count);
        mix(count)
    }
}

/// One-to-one on 64 bits.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_comes_twice() {
        let nonces = Nonces::new().unwrap();
        let drawn: HashSet<u64> = (0..10_000).map(|_| nonces.draw()).collect();
        assert_eq!(drawn.len(), 10_000);
    }
}
