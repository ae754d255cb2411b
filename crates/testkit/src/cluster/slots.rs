//! Which slot a key lies in.
//!
//! CRC16 (XMODEM: polynomial 0x1021, begun with 0, nothing reflected) of the key, modulo 16,384; of the part between the
//! first `{` and the first `}` after it only, where that is not empty (`keyHashSlot` in Redis's cluster.c). The core has
//! its own; this one is written apart, so that the two check each other.

use std::ops::RangeInclusive;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// A key in a slot, with these bytes at its head: the first of `{0}head`, `{1}head` and so on, that lies there.
///
/// # Panics
/// Where there is no such slot.
pub fn key_in(slot: u16, head: &str) -> String {
    assert!(slot < SLOTS, "there is no slot {slot}");
    let tags = (0_u32..).map(|number| format!("{head}:{{{number}}}"));
    tags.into_iter().find(|key| slot_of(key.as_bytes()) == slot).unwrap_or_default()
}

/// All slots in so many ranges of the same length, or one more.
pub(super) fn shares(count: usize) -> Vec<RangeInclusive<u16>> {
    let bound = |part: usize| u16::try_from(usize::from(SLOTS) * part / count).unwrap_or(SLOTS);
    (0..count).map(|part| bound(part)..=bound(part + 1) - 1).collect()
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_as_the_specification_has_them() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn only_the_first_tag_that_is_not_empty_counts() {
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo{bar"), crc16(b"foo{bar") % SLOTS);
    }

    #[test]
    fn a_key_is_found_in_any_slot() {
        for slot in [0, 1, 8191, 16_383] {
            assert_eq!(slot_of(key_in(slot, "k").as_bytes()), slot);
        }
    }

    #[test]
    fn shares_cover_every_slot_once() {
        assert_eq!(shares(1), [0..=16_383]);
        assert_eq!(shares(3), [0..=5460, 5461..=10_921, 10_922..=16_383]);
    }
}
