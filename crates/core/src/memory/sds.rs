//! Simple dynamic strings: a header by length, the bytes, a zero (`sds.h`, `sds.c`; the same in all servers).
//!
//! ```text
//! ┌───────────────┬───────────┬────┐
//! │ header: 1 … 17│ bytes     │ \0 │
//! └───────────────┴───────────┴────┘
//! ```

/// The header with one byte for each length (`sizeof(struct sdshdr8)`).
const HEADER_8: u64 = 3;
/// The zero after the bytes.
const TERMINATOR: u64 = 1;

/// An sds of its own (`sdsnewlen`): an empty one is made to grow, and has the second header.
pub(super) fn sds_bytes(len: u64) -> u64 {
    if len == 0 { sds_8_bytes(0) } else { shortest_sds_bytes(len) }
}

/// An sds with the shortest header for its length (`sdsReqType`, `sdsHdrSize`).
pub(super) fn shortest_sds_bytes(len: u64) -> u64 {
    let header = match len {
        0..=0x1f => 1,
        0x20..=0xff => HEADER_8,
        0x100..=0xffff => 5,
        0x1_0000..=0xffff_ffff => 9,
        _ => 17,
    };
    header + len + TERMINATOR
}

/// An sds with an 8-bit header at the least, as values that are embedded have it.
pub(super) fn sds_8_bytes(len: u64) -> u64 {
    shortest_sds_bytes(len).max(HEADER_8 + len + TERMINATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_grow_with_the_length() {
        let sizes = [0, 1, 31, 32, 255, 256, 65_535, 65_536].map(sds_bytes);
        assert_eq!(sizes, [4, 3, 33, 36, 259, 262, 65_541, 65_546]);
        assert_eq!(shortest_sds_bytes(0), 2);
        assert_eq!([1, 31, 32, 256].map(sds_8_bytes), [5, 35, 36, 262]);
    }
}
