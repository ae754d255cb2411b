//! SETBIT, GETBIT, BITCOUNT, BITPOS and BITOP: a string as a row of bits.
//!
//! Bit 0 is the highest bit of byte 0, as in bitops.c (Redis 7.0.15), whose order of checks is kept:
//!
//! ```text
//! bit   0 1 2 3 4 5 6 7   8 9 …
//! byte  └──── 0 ─────┘   └─ 1 …
//! ```
//!
//! Bits behind the end read as 0. Writing there fills up with zero bytes, and keeps the key's expiry.

use std::ops::RangeInclusive;

use super::{Call, Entry, Flow, Halt, Held, MAX_STRING_BYTES, Space, integer};
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::resp::word::is_word;

pub(super) const SYNTAX_ERROR: &str = "ERR syntax error";
pub(super) const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BAD_BIT: &str = "ERR bit is not an integer or out of range";

/// SETBIT key offset 0|1: the bit that was there. Nothing is written where nothing would change.
pub(super) fn setbit(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (byte, mask) = bit_place(parse_offset(call.args[2])?);
    let on = match parse_integer(call.args[3]) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => return Err(BAD_BIT.into()),
    };
    let held = space.string(call.args[1])?;
    let before = held.and_then(|entry| entry.value.get(byte));
    let was_on = before.is_some_and(|bits| bits & mask != 0);
    if before.is_none() {
        space.check_growth(byte + 1)?;
    }
    if before.is_none() || was_on != on {
        let mut entry = grown(held, byte + 1);
        entry.value[byte] = if on { entry.value[byte] | mask } else { entry.value[byte] & !mask };
        space.put(call.args[1], entry);
    }
    answer.integer(i64::from(was_on));
    Ok(())
}

/// GETBIT key offset: the bit there.
pub(super) fn getbit(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (byte, mask) = bit_place(parse_offset(call.args[2])?);
    let bits = space.string(call.args[1])?.and_then(|entry| entry.value.get(byte)).copied();
    answer.integer(i64::from(bits.is_some_and(|bits| bits & mask != 0)));
    Ok(())
}

/// BITCOUNT key [start end [BYTE|BIT]]: how many bits are 1.
pub(super) fn bitcount(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let Some(Entry { value, .. }) = space.string(call.args[1])? else {
        answer.integer(0);
        return Ok(());
    };
    let bits = match call.args {
        [_, _] => whole(value),
        [_, _, start, end, unit @ ..] if unit.len() < 2 => {
            let (start, end) = (integer(start)?, integer(end)?);
            // Compared before the unit is read: it may then be anything.
            if start < 0 && end < 0 && start > end {
                None
            } else {
                let unit = unit.first().map_or(Ok(Unit::Byte), |unit| Unit::parse(unit))?;
                bit_range(value.len(), start, end, unit)
            }
        }
        _ => return Err(SYNTAX_ERROR.into()),
    };
    let ones: u64 = bits
        .into_iter()
        .flat_map(|bits| masked(value, bits))
        .map(|(_, byte, mask)| u64::from((byte & mask).count_ones()))
        .sum();
    answer.integer(ones.cast_signed());
    Ok(())
}

/// BITPOS key 0|1 [start [end [BYTE|BIT]]]: where the first such bit is, -1 where there is none.
///
/// Without an `end`, a value of ones alone is followed by a zero.
pub(super) fn bitpos(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let wanted = match integer(call.args[2])? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(Entry { value, .. }) = space.string(call.args[1])? else {
        answer.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let bits = match &call.args[3..] {
        [] => whole(value),
        [start] => bit_range(value.len(), integer(start)?, -1, Unit::Byte),
        [start, end, unit @ ..] if unit.len() < 2 => {
            let start = integer(start)?;
            let unit = unit.first().map_or(Ok(Unit::Byte), |unit| Unit::parse(unit))?;
            bit_range(value.len(), start, integer(end)?, unit)
        }
        _ => return Err(SYNTAX_ERROR.into()),
    };
    let behind = bits.as_ref().filter(|_| !wanted && call.args.len() < 5).map_or(-1, |bits| bits.end() + 1);
    let first = bits.into_iter().flat_map(|bits| masked(value, bits)).find_map(|(at, byte, mask)| {
        let hits = if wanted { byte } else { !byte } & mask;
        (hits != 0).then(|| at * 8 + i64::from(hits.leading_zeros()))
    });
    answer.integer(first.unwrap_or(behind));
    Ok(())
}

/// BITOP AND|OR|XOR|NOT destination key…: the length written. Sources are padded with zero bytes;
/// where all are empty, the destination is removed.
pub(super) fn bitop(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let operation = Operation::parse(call.args[1])?;
    let (destination, keys) = (call.args[2], &call.args[3..]);
    if matches!(operation, Operation::Not) && keys.len() != 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut sources: Vec<&[u8]> = Vec::with_capacity(keys.len());
    for key in keys {
        sources.push(space.string(key)?.map_or(&[], |entry| &entry.value));
    }
    let value = operation.apply(&sources);
    answer.integer(i64::try_from(value.len()).unwrap_or(i64::MAX));
    if !value.is_empty() {
        space.put(destination, Entry { value, expires_at_ms: None });
    } else if *space.held(destination) != Held::Nothing {
        space.remove(destination);
    }
    Ok(())
}

/// What BITOP does with its sources.
#[derive(Clone, Copy)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(arg: &[u8]) -> Result<Self, Halt> {
        [("and", Self::And), ("or", Self::Or), ("xor", Self::Xor), ("not", Self::Not)]
            .into_iter()
            .find_map(|(word, operation)| is_word(arg, word).then_some(operation))
            .ok_or_else(|| SYNTAX_ERROR.into())
    }

    /// Combines the sources, as long as the longest of them.
    fn apply(self, sources: &[&[u8]]) -> Vec<u8> {
        let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let (first, rest) = sources.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
        let mut value = first.to_vec();
        value.resize(len, 0);
        for source in rest {
            let (covered, beyond) = value.split_at_mut(source.len());
            for (byte, other) in covered.iter_mut().zip(*source) {
                match self {
                    Self::And => *byte &= other,
                    Self::Or => *byte |= other,
                    Self::Xor => *byte ^= other,
                    Self::Not => {}
                }
            }
            if matches!(self, Self::And) {
                beyond.fill(0);
            }
        }
        if matches!(self, Self::Not) {
            value.iter_mut().for_each(|byte| *byte = !*byte);
        }
        value
    }
}

/// What the bounds of a range count.
#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(arg: &[u8]) -> Result<Self, Halt> {
        match arg {
            arg if is_word(arg, "bit") => Ok(Self::Bit),
            arg if is_word(arg, "byte") => Ok(Self::Byte),
            _ => Err(SYNTAX_ERROR.into()),
        }
    }
}

/// The bits of a whole value, none where it is empty.
fn whole(value: &[u8]) -> Option<RangeInclusive<i64>> {
    bit_range(value.len(), 0, -1, Unit::Byte)
}

/// The bits from `start` to `end`, of a value of `len` bytes; negative bounds count from its end.
fn bit_range(len: usize, start: i64, end: i64, unit: Unit) -> Option<RangeInclusive<i64>> {
    let len = i64::try_from(len).ok()?;
    let total = match unit {
        Unit::Byte => len,
        Unit::Bit => len.checked_mul(8)?,
    };
    let resolve = |bound: i64| if bound < 0 { (total + bound).max(0) } else { bound };
    let (start, end) = (resolve(start), resolve(end).min(total - 1));
    if start > end {
        return None;
    }
    match unit {
        Unit::Byte => Some(start.checked_mul(8)?..=end.checked_mul(8)? + 7),
        Unit::Bit => Some(start..=end),
    }
}

/// The bytes that hold `bits`: position, byte, and which of its bits are meant.
fn masked(value: &[u8], bits: RangeInclusive<i64>) -> impl Iterator<Item = (i64, u8, u8)> {
    let (first, last) = (*bits.start() >> 3, *bits.end() >> 3);
    (first..=last).zip(value.iter().skip(usize::try_from(first).unwrap_or(usize::MAX))).map(move |(at, &byte)| {
        let from = if at == first { 0xff >> (bits.start() & 7) } else { 0xff };
        let to = if at == last { 0xff << (7 - (bits.end() & 7)) } else { 0xff };
        (at, byte, from & to)
    })
}

/// The byte a bit lies in, and the mask that leaves only that bit.
fn bit_place(offset: u64) -> (usize, u8) {
    (usize::try_from(offset >> 3).unwrap_or(usize::MAX), 0x80 >> (offset & 7))
}

/// A copy to change, at least `len` bytes long.
pub(super) fn grown(held: Option<&Entry>, len: usize) -> Entry {
    let expires_at_ms = held.and_then(|entry| entry.expires_at_ms);
    let mut value = Vec::new();
    let before = held.map_or(&[][..], |entry| &entry.value);
    value.reserve_exact(len.max(before.len()));
    value.extend_from_slice(before);
    value.resize(len.max(before.len()), 0);
    Entry { value, expires_at_ms }
}

fn parse_offset(arg: &[u8]) -> Result<u64, Halt> {
    parse_integer(arg).and_then(within_limit).ok_or_else(|| BAD_OFFSET.into())
}

/// A bit's offset where a value may have a byte there.
pub(super) fn within_limit(offset: i64) -> Option<u64> {
    u64::try_from(offset).ok().filter(|_| offset >> 3 < MAX_STRING_BYTES)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Call, Entry, Held, Space, finish};
    use crate::command::table;
    use crate::resp::{Answer, Protocol};

    /// A space where `k` holds `value`, and expires.
    pub(in crate::string) fn holding(value: &[u8]) -> Space {
        let mut space = Space::new(0);
        space.load(b"k", Held::String(Entry { value: value.to_vec(), expires_at_ms: Some(1000) }));
        space.load(b"list", Held::Other(b"list".to_vec()));
        space
    }

    /// The reply to a command line, split at blanks, with its line ends as blanks.
    pub(in crate::string) fn run(space: &mut Space, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, Protocol::Resp2);
        let flow = table().resolve(&args).unwrap().run.unwrap()(&Call { args: &args }, space, &mut answer);
        finish(flow, &mut answer).unwrap();
        out.escape_ascii().to_string().replace("\\r\\n", " ").trim_end().to_owned()
    }

    fn is_untouched(space: &Space) -> bool {
        space.changes().next().is_none()
    }

    #[test]
    fn setbit_fills_up_and_keeps_the_expiry() {
        let mut space = holding(b"a");
        assert_eq!(run(&mut space, "SETBIT k 23 1"), ":0");
        let entry = space.string(b"k").unwrap().unwrap();
        assert_eq!((entry.value.as_slice(), entry.expires_at_ms), (&b"a\0\x01"[..], Some(1000)));
        assert_eq!(run(&mut space, "SETBIT k 23 0"), ":1");
        assert_eq!(run(&mut space, "SETBIT new 7 0"), ":0");
        assert_eq!(space.string(b"new").unwrap().unwrap().value, b"\0");
    }

    #[test]
    fn setbit_leaves_what_is_already_so() {
        let mut space = holding(b"\x80");
        assert_eq!(run(&mut space, "SETBIT k 0 1"), ":1");
        assert!(is_untouched(&space));
    }

    #[test]
    fn setbit_checks_the_offset_then_the_bit_then_the_type() {
        let mut space = holding(b"");
        for offset in ["4294967296", "-1", "x", "01", "#1"] {
            let reply = run(&mut space, &format!("SETBIT list {offset} 2"));
            assert_eq!(reply, "-ERR bit offset is not an integer or out of range");
        }
        assert_eq!(run(&mut space, "SETBIT list 0 2"), "-ERR bit is not an integer or out of range");
        assert!(run(&mut space, "SETBIT list 0 1").starts_with("-WRONGTYPE"));
        assert!(is_untouched(&space));
    }

    #[test]
    fn getbit_reads_zero_behind_the_end() {
        let mut space = holding(b"\x01");
        assert_eq!(run(&mut space, "GETBIT k 7"), ":1");
        assert_eq!(run(&mut space, "GETBIT k 4294967295"), ":0");
        assert_eq!(run(&mut space, "GETBIT none 0"), ":0");
    }

    #[test]
    fn bitcount_in_bytes_and_bits() {
        let mut space = holding(b"foobar");
        assert_eq!(run(&mut space, "BITCOUNT k"), ":26");
        assert_eq!(run(&mut space, "BITCOUNT k 1 1"), ":6");
        assert_eq!(run(&mut space, "BITCOUNT k 5 30 BIT"), ":17");
        assert_eq!(run(&mut space, "BITCOUNT k -9223372036854775808 9223372036854775807"), ":26");
        assert_eq!(run(&mut space, "BITCOUNT k -1 -2 nonsense"), ":0");
        assert_eq!(run(&mut space, "BITCOUNT k 0 1 nonsense"), "-ERR syntax error");
        assert_eq!(run(&mut space, "BITCOUNT k 0"), "-ERR syntax error");
        assert_eq!(run(&mut space, "BITCOUNT none 0"), ":0");
    }

    #[test]
    fn bitpos_finds_a_zero_behind_ones_unless_the_end_is_given() {
        let mut space = holding(b"\xff\xff");
        assert_eq!(run(&mut space, "BITPOS k 0"), ":16");
        assert_eq!(run(&mut space, "BITPOS k 0 1"), ":16");
        assert_eq!(run(&mut space, "BITPOS k 0 0 -1"), ":-1");
        assert_eq!(run(&mut space, "BITPOS k 0 9"), ":-1");
        assert_eq!(run(&mut space, "BITPOS k 1 3 -1 BIT"), ":3");
        assert_eq!(run(&mut space, "BITPOS none 0"), ":0");
        assert_eq!(run(&mut space, "BITPOS none 1"), ":-1");
        assert_eq!(run(&mut space, "BITPOS none 2"), "-ERR The bit argument must be 1 or 0.");
    }

    #[test]
    fn bitop_pads_and_drops_the_expiry() {
        let mut space = holding(b"\xf0\x0f");
        space.load(b"b", Held::String(Entry { value: b"\xff".to_vec(), expires_at_ms: None }));
        for (operation, value) in [("AND", b"\xf0\0"), ("or", b"\xff\x0f"), ("Xor", b"\x0f\x0f")] {
            assert_eq!(run(&mut space, &format!("BITOP {operation} to k b")), ":2");
            assert_eq!(space.string(b"to").unwrap().unwrap().value, value);
        }
        assert_eq!(run(&mut space, "BITOP NOT k k"), ":2");
        let inverted = Entry { value: b"\x0f\xf0".to_vec(), expires_at_ms: None };
        assert_eq!(space.string(b"k").unwrap(), Some(&inverted));
        assert_eq!(run(&mut space, "BITOP NOT to k b"), "-ERR BITOP NOT must be called with a single source key.");
    }

    #[test]
    fn bitop_of_nothing_removes_the_destination() {
        let mut space = holding(b"a");
        assert_eq!(run(&mut space, "BITOP OR none none"), ":0");
        assert!(is_untouched(&space));
        assert_eq!(run(&mut space, "BITOP OR list none"), ":0");
        assert_eq!(*space.held(b"list"), Held::Nothing);
    }
}
