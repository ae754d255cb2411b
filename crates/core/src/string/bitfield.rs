//! BITFIELD and BITFIELD_RO: integers of 1 to 64 bits at any bit of a string.
//!
//! A field's first bit is its highest. Order of checks and arithmetic are those of bitops.c (Redis
//! 7.0.15): all operations are parsed before the key is looked at, and a value is made long enough for
//! the last bit any of them may write before the first one runs.

use super::bits::{self, BAD_OFFSET, grown};
use super::{Call, Flow, Halt, SYNTAX_ERROR, Space, integer};
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::resp::word::{c_text, is_word};

const BAD_KIND: &str =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
const BAD_OVERFLOW: &str = "ERR Invalid OVERFLOW type specified";
const READ_ONLY: &str = "ERR BITFIELD_RO only supports the GET subcommand";

/// BITFIELD key [GET kind offset | OVERFLOW WRAP|SAT|FAIL | SET kind offset value |
/// INCRBY kind offset increment]…: one reply for each GET, SET and INCRBY.
pub(super) fn bitfield(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let operations = parse(&call.args[2..])?;
    match operations.iter().filter_map(Operation::last_written_bit).max() {
        Some(last) => write(call.args[1], &operations, last, space, answer),
        None => read(call.args[1], &operations, space, answer),
    }
}

/// BITFIELD_RO key [GET kind offset]…
pub(super) fn bitfield_ro(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let operations = parse(&call.args[2..])?;
    if operations.iter().any(|operation| operation.last_written_bit().is_some()) {
        return Err(READ_ONLY.into());
    }
    read(call.args[1], &operations, space, answer)
}

fn read(key: &[u8], operations: &[Operation], space: &Space, answer: &mut Answer<'_>) -> Flow {
    let value = space.string(key)?.map_or(&[][..], |entry| &entry.value);
    answer.array(operations.len());
    for operation in operations {
        answer.integer(operation.field.decode(value));
    }
    Ok(())
}

fn write(key: &[u8], operations: &[Operation], last_bit: u64, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let held = space.string(key)?;
    let len_before = held.map(|entry| entry.value.len());
    let len = usize::try_from(last_bit >> 3).map_or(usize::MAX, |byte| byte + 1);
    if len_before.is_none_or(|before| before < len) {
        space.check_growth(len)?;
    }
    let mut entry = grown(held, len);
    let has_grown = len_before != Some(entry.value.len());
    let mut changed = has_grown;
    // The server tells of writes, and not that it has made room for some that failed.
    let mut is_told = false;

    answer.array(operations.len());
    for Operation { field, action } in operations {
        let before = field.decode(&entry.value);
        let (after, shown) = match *action {
            Action::Get => (None, Some(before)),
            Action::Set(value, overflow) => {
                let after = field.kind.fit(value, 0, overflow);
                (after, after.map(|_| before))
            }
            Action::Add(increment, overflow) => {
                let after = field.kind.fit(before, increment, overflow);
                (after, after)
            }
        };
        if let Some(after) = after {
            field.encode(&mut entry.value, after);
            changed |= after != before;
            is_told |= has_grown || after != before;
        }
        match shown {
            Some(value) => answer.integer(value),
            None => answer.nil(),
        }
    }
    if changed {
        space.put(key, entry);
        if is_told {
            space.note(Event::SetBit, key);
        }
    }
    Ok(())
}

/// The last bit that BITFIELD with these arguments may write, where a double has all its integers exactly; none where it
/// writes nothing, or an argument isn't right.
pub(crate) fn written_within_doubles(args: &[&[u8]]) -> Option<u64> {
    let operations = parse(args.get(2..)?).ok()?;
    let is_exact = operations.iter().all(|operation| operation.field.kind.bits <= DOUBLE_BITS);
    operations.iter().filter_map(Operation::last_written_bit).max().filter(|_| is_exact)
}

/// Integers of so many bits are doubles.
const DOUBLE_BITS: u8 = 53;

/// One GET, SET or INCRBY.
struct Operation {
    field: Field,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// What happens to a value that does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// Its low bits stay.
    Wrap,
    /// The nearest value that fits.
    Saturate,
    /// Nothing is written, and the reply is nil.
    Fail,
}

impl Operation {
    /// The last bit this may write, none where it only reads.
    fn last_written_bit(&self) -> Option<u64> {
        (!matches!(self.action, Action::Get)).then(|| self.field.offset + u64::from(self.field.kind.bits) - 1)
    }
}

fn parse(mut args: &[&[u8]]) -> Result<Vec<Operation>, Halt> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    loop {
        let (operation, rest) = match args {
            [] => return Ok(operations),
            [word, kind, offset, rest @ ..] if is_word(word, "get") => {
                (Operation { field: Field::parse(kind, offset)?, action: Action::Get }, rest)
            }
            [word, kind, offset, value, rest @ ..] if is_word(word, "set") => {
                let field = Field::parse(kind, offset)?;
                (Operation { field, action: Action::Set(integer(value)?, overflow) }, rest)
            }
            [word, kind, offset, increment, rest @ ..] if is_word(word, "incrby") => {
                let field = Field::parse(kind, offset)?;
                (Operation { field, action: Action::Add(integer(increment)?, overflow) }, rest)
            }
            [word, name, rest @ ..] if is_word(word, "overflow") => {
                overflow = Overflow::parse(name)?;
                args = rest;
                continue;
            }
            _ => return Err(SYNTAX_ERROR.into()),
        };
        operations.push(operation);
        args = rest;
    }
}

impl Overflow {
    fn parse(arg: &[u8]) -> Result<Self, Halt> {
        [("wrap", Self::Wrap), ("sat", Self::Saturate), ("fail", Self::Fail)]
            .into_iter()
            .find_map(|(word, overflow)| is_word(arg, word).then_some(overflow))
            .ok_or_else(|| BAD_OVERFLOW.into())
    }
}

/// An integer type: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy)]
struct IntType {
    signed: bool,
    bits: u8,
}

impl IntType {
    fn parse(arg: &[u8]) -> Result<Self, Halt> {
        let (signed, widest, digits) = match c_text(arg) {
            [b'i', digits @ ..] => (true, 64, digits),
            [b'u', digits @ ..] => (false, 63, digits),
            _ => return Err(BAD_KIND.into()),
        };
        parse_integer(digits)
            .and_then(|bits| u8::try_from(bits).ok())
            .filter(|bits| (1..=widest).contains(bits))
            .map(|bits| Self { signed, bits })
            .ok_or_else(|| BAD_KIND.into())
    }

    /// `value + increment` as this type holds it, none where it does not fit and must not be changed.
    fn fit(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        let over =
            if self.signed { self.signed_excess(value, increment) } else { self.unsigned_excess(value, increment) };
        match (over, overflow) {
            (None, _) => Some(value.wrapping_add(increment)),
            (Some(_), Overflow::Wrap) => Some(self.truncate(value.wrapping_add(increment).cast_unsigned())),
            (Some(limit), Overflow::Saturate) => Some(limit),
            (Some(_), Overflow::Fail) => None,
        }
    }

    /// The limit that `value + increment` is beyond. A negative `value` stands for one over 2⁶³.
    fn unsigned_excess(self, value: i64, increment: i64) -> Option<i64> {
        let max = i64::MAX >> (63 - self.bits);
        if !(0..=max).contains(&value) || increment > max - value {
            Some(max)
        } else if increment < -value {
            Some(0)
        } else {
            None
        }
    }

    /// The limit that `value + increment` is beyond. The room is computed as the server does it, in 64
    /// bits that wrap: SET to a value near the lowest of 64 bits meets the upper limit of a narrow type.
    fn signed_excess(self, value: i64, increment: i64) -> Option<i64> {
        let max = i64::MAX >> (64 - self.bits);
        let min = -max - 1;
        let (room_above, room_below) = (max.wrapping_sub(value), min.wrapping_sub(value));
        let narrow = self.bits != 64;
        if value > max || ((narrow || (value >= 0 && increment > 0)) && increment > room_above) {
            Some(max)
        } else if value < min || ((narrow || (value < 0 && increment < 0)) && increment < room_below) {
            Some(min)
        } else {
            None
        }
    }

    /// The low bits of `raw`, as a number of this type.
    fn truncate(self, raw: u64) -> i64 {
        let unused = 64 - u32::from(self.bits);
        let high = raw << unused;
        if self.signed { high.cast_signed() >> unused } else { (high >> unused).cast_signed() }
    }
}

/// Where an integer lies in a value, and its type.
struct Field {
    offset: u64,
    kind: IntType,
}

impl Field {
    /// Parses a type and an offset in bits, or, behind a `#`, in integers of that type.
    fn parse(kind: &[u8], offset: &[u8]) -> Result<Self, Halt> {
        let kind = IntType::parse(kind)?;
        let offset = match offset {
            // The server multiplies in 64 bits and checks the outcome only.
            [b'#', index @ ..] => parse_integer(index).map(|index| index.wrapping_mul(i64::from(kind.bits))),
            offset => parse_integer(offset),
        };
        let offset = offset.and_then(bits::within_limit).ok_or_else(|| Halt::from(BAD_OFFSET))?;
        Ok(Self { offset, kind })
    }

    /// Reads the integer; bits behind the end are 0.
    fn decode(&self, value: &[u8]) -> i64 {
        let (first, shift) = self.place();
        let mut bytes = [0; 16];
        let there = value.get(first..).unwrap_or_default();
        let len = there.len().min(9);
        bytes[..len].copy_from_slice(&there[..len]);
        let raw = u128::from_be_bytes(bytes) >> shift;
        self.kind.truncate(u64::try_from(raw & u128::from(u64::MAX)).unwrap_or(0))
    }

    /// Writes the integer's low bits; what lies behind the end of `value` is left out.
    fn encode(&self, value: &mut [u8], number: i64) {
        let (first, shift) = self.place();
        let mask = (u128::MAX >> (128 - u32::from(self.kind.bits))) << shift;
        let raw = (u128::from(number.cast_unsigned()) << shift) & mask;
        let there = value.get_mut(first..).unwrap_or_default();
        for ((byte, mask), raw) in there.iter_mut().zip(mask.to_be_bytes()).zip(raw.to_be_bytes()) {
            *byte = (*byte & !mask) | raw;
        }
    }

    /// The first byte touched, and how many bits are behind the integer in the 16 bytes from there.
    fn place(&self) -> (usize, u64) {
        let first = usize::try_from(self.offset >> 3).unwrap_or(usize::MAX);
        (first, 128 - (self.offset & 7) - u64::from(self.kind.bits))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Space;
    use super::super::bits::tests::{holding, run};

    #[test]
    fn fields_of_any_width_at_any_bit() {
        let mut space = holding(b"");
        assert_eq!(run(&mut space, "BITFIELD k SET i5 3 -7 GET i5 3 GET u5 3 GET u1 3"), "*4 :0 :-7 :25 :1");
        assert_eq!(
            run(&mut space, "BITFIELD k SET i64 5 -2 GET i64 5 GET u63 6"),
            "*3 :2305843009213693952 :-2 :9223372036854775806"
        );
        let entry = space.string(b"k").unwrap().unwrap();
        assert_eq!((entry.value.len(), entry.expires_at_ms), (9, Some(1000)));
        assert_eq!(run(&mut space, "BITFIELD k SET u8 #2 200 GET u8 16"), "*2 :255 :200");
    }

    #[test]
    fn overflow_wraps_saturates_or_fails() {
        let mut space = holding(b"\x7f\xff");
        assert_eq!(run(&mut space, "BITFIELD k INCRBY i8 0 1"), "*1 :-128");
        assert_eq!(run(&mut space, "BITFIELD k OVERFLOW SAT INCRBY i8 0 -1 INCRBY u8 8 1"), "*2 :-128 :255");
        assert_eq!(run(&mut space, "BITFIELD k OVERFLOW FAIL INCRBY u8 8 1 SET i8 8 128 GET u8 8"), "*3 $-1 $-1 :255");
        assert_eq!(run(&mut space, "BITFIELD k SET u8 8 -1 SET u8 8 256 GET u8 8"), "*3 :255 :255 :0");
    }

    #[test]
    fn saturation_keeps_the_servers_wrap_in_64_bits() {
        let mut space = holding(b"");
        assert_eq!(run(&mut space, "BITFIELD k OVERFLOW SAT SET i8 0 -9223372036854775808 GET i8 0"), "*2 :0 :127");
        assert_eq!(run(&mut space, "BITFIELD k OVERFLOW SAT SET i8 0 -9000000 GET i8 0"), "*2 :127 :-128");
    }

    #[test]
    fn reads_create_nothing() {
        let mut space = Space::new(0);
        assert_eq!(run(&mut space, "BITFIELD k GET u8 4294967295"), "*1 :0");
        assert_eq!(run(&mut space, "BITFIELD k"), "*0");
        assert_eq!(run(&mut space, "BITFIELD k OVERFLOW FAIL"), "*0");
        assert_eq!(run(&mut space, "BITFIELD_RO k GET i64 #1"), "*1 :0");
        assert_eq!(space.changes().count(), 0);
    }

    #[test]
    fn all_is_parsed_before_the_key_is_looked_at() {
        let mut space = holding(b"");
        let bad_kind =
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        assert_eq!(run(&mut space, "BITFIELD list SET u8 0 1 GET u64 0"), bad_kind);
        assert_eq!(
            run(&mut space, "BITFIELD list GET u8 4294967296"),
            "-ERR bit offset is not an integer or out of range"
        );
        assert_eq!(run(&mut space, "BITFIELD list SET u8 0 x"), "-ERR value is not an integer or out of range");
        assert_eq!(run(&mut space, "BITFIELD list SET u8 0"), "-ERR syntax error");
        assert_eq!(run(&mut space, "BITFIELD list OVERFLOW no"), "-ERR Invalid OVERFLOW type specified");
        assert_eq!(run(&mut space, "BITFIELD_RO list SET u8 0 1"), "-ERR BITFIELD_RO only supports the GET subcommand");
        assert!(run(&mut space, "BITFIELD list SET u8 0 1").starts_with("-WRONGTYPE"));
        assert_eq!(space.changes().count(), 0);
    }
}
