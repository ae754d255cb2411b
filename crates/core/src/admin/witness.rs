//! The witnesses of a cluster: keys in other slots than the home, that say what layout is in force
//! ([`crate::change`]).
//!
//! Their slots are the middles of equal parts of all slots, so that the usual even shares put them on different
//! primaries.

use crate::slot::Slot;

/// How many witnesses there are.
pub const WITNESSES: u16 = 4;

/// The slots of the witnesses, in order.
pub fn slots() -> impl Iterator<Item = Slot> {
    let part = 16_384 / WITNESSES;
    (0..WITNESSES).filter_map(move |number| Slot::new(number * part + part / 2))
}

/// The key of the witness in this slot.
pub fn key(slot: Slot) -> Vec<u8> {
    [b"keyfold:{", slot.tag(), b"}:witness"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::home;

    #[test]
    fn they_are_spread_over_the_slots_and_lie_where_they_say() {
        let all: Vec<u16> = slots().map(Slot::number).collect();
        assert_eq!(all, [2048, 6144, 10_240, 14_336]);
        assert!(slots().all(|slot| Slot::of(&key(slot)) == slot && slot != home()));
        assert_eq!(home().number(), 10_814);
    }

    /// However many primaries share the slots evenly, home and witnesses lie on at least two of them.
    #[test]
    fn even_shares_put_them_on_two_primaries() {
        for primaries in 2..=1000 {
            let owner = |slot: Slot| u32::from(slot.number()) * primaries / 16_384;
            let owners: std::collections::BTreeSet<_> = slots().chain([home()]).map(owner).collect();
            assert!(owners.len() >= 2, "{primaries}: {owners:?}");
        }
    }
}
