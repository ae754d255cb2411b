//! What an entry takes in a listpack, and in the ziplist before it.
//!
//! ```text
//! listpack   ┌ head: 6 ┐ ┌ encoding ┬ data ┬ back length: 1 … 5 ┐ … ┌ end: 1 ┐
//! ziplist    ┌ head: 10 ┐ ┌ previous length: 1, 5 ┬ encoding ┬ data ┐ … ┌ end: 1 ┐
//! ```
//! Both are reallocated to their exact size as they grow (`lpInsert`, `ziplistResize`), which the allocator
//! then rounds.

use super::server::Packing;
use super::shape::ValueShape;

/// `LP_HDR_SIZE` and the end byte (`listpack.c`).
const LISTPACK_FRAME: u64 = 6 + 1;
/// `ZIPLIST_HEADER_SIZE` and the end byte (`ziplist.c`).
const ZIPLIST_FRAME: u64 = 10 + 1;
/// Entries from this length on need 5 bytes in front of the next (`ZIP_BIG_PREVLEN`).
const ZIPLIST_LONG_ENTRY: u64 = 254;
/// Integers up to this one are part of the encoding byte (`ZIP_INT_IMM_MAX`).
const ZIPLIST_IMMEDIATE_MAX: i64 = 12;

/// The bytes of a packed list without entries.
pub(super) fn frame_bytes(packing: Packing) -> u64 {
    match packing {
        Packing::Ziplist => ZIPLIST_FRAME,
        Packing::Listpack => LISTPACK_FRAME,
    }
}

/// The bytes of an entry after one of `previous` bytes; 0 where it is the first.
pub(super) fn entry_bytes(packing: Packing, element: ValueShape, previous: u64) -> u64 {
    match packing {
        Packing::Ziplist => ziplist_entry_bytes(element, previous),
        Packing::Listpack => listpack_entry_bytes(element),
    }
}

/// `lpEncodeIntegerGetType`, `lpEncodeString` and `lpEncodeBacklen` of `listpack.c`.
fn listpack_entry_bytes(element: ValueShape) -> u64 {
    let encoded = match element {
        ValueShape::Integer(0..=127) => 1,
        ValueShape::Integer(-4096..=4095) => 2,
        ValueShape::Integer(-0x8000..=0x7fff) => 3,
        ValueShape::Integer(-0x80_0000..=0x7f_ffff) => 4,
        ValueShape::Integer(-0x8000_0000..=0x7fff_ffff) => 5,
        ValueShape::Integer(_) => 9,
        ValueShape::Bytes(len @ ..=0x3f) => 1 + len,
        ValueShape::Bytes(len @ ..=0xfff) => 2 + len,
        ValueShape::Bytes(len) => 5 + len,
    };
    let back_length = match encoded {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        2_097_152..=268_435_455 => 4,
        _ => 5,
    };
    encoded + back_length
}

/// `zipStorePrevEntryLength`, `zipStoreEntryEncoding` and `zipIntSize` of `ziplist.c`.
fn ziplist_entry_bytes(element: ValueShape, previous: u64) -> u64 {
    let previous_length = if previous < ZIPLIST_LONG_ENTRY { 1 } else { 5 };
    let encoded = match element {
        ValueShape::Integer(0..=ZIPLIST_IMMEDIATE_MAX) => 1,
        ValueShape::Integer(-0x80..=0x7f) => 2,
        ValueShape::Integer(-0x8000..=0x7fff) => 3,
        ValueShape::Integer(-0x80_0000..=0x7f_ffff) => 4,
        ValueShape::Integer(-0x8000_0000..=0x7fff_ffff) => 5,
        ValueShape::Integer(_) => 9,
        ValueShape::Bytes(len @ ..=0x3f) => 1 + len,
        ValueShape::Bytes(len @ ..=0x3fff) => 2 + len,
        ValueShape::Bytes(len) => 5 + len,
    };
    previous_length + encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listpack(text: &str) -> u64 {
        listpack_entry_bytes(ValueShape::of(text.as_bytes()))
    }

    #[test]
    fn listpack_integers_by_their_size() {
        let texts = ["0", "127", "128", "-1", "4095", "-4096", "4096", "32767", "32768", "8388607", "8388608"];
        assert_eq!(texts.map(listpack), [2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6]);
        assert_eq!(["2147483647", "2147483648", "-9223372036854775808"].map(listpack), [6, 10, 10]);
        assert_eq!(["007", "-0", "9223372036854775808"].map(listpack), [5, 4, 21]);
    }

    #[test]
    fn listpack_strings_by_their_length() {
        let sizes = [0, 63, 64, 125, 126, 4095, 4096, 20_000].map(|len| listpack_entry_bytes(ValueShape::Bytes(len)));
        assert_eq!(sizes, [2, 65, 67, 128, 130, 4099, 4103, 20_008]);
    }

    #[test]
    fn ziplist_entries_know_the_one_before() {
        assert_eq!(ziplist_entry_bytes(ValueShape::Integer(12), 0), 2);
        assert_eq!(ziplist_entry_bytes(ValueShape::Integer(13), 253), 3);
        assert_eq!(ziplist_entry_bytes(ValueShape::Integer(13), 254), 7);
        assert_eq!(ziplist_entry_bytes(ValueShape::Bytes(63), 0), 65);
        assert_eq!(ziplist_entry_bytes(ValueShape::Bytes(64), 0), 67);
    }
}
