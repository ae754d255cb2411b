//! SETBIT, GETBIT, BITCOUNT and BITPOS: a string as a row of bits.
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

use super::bit_range::{BitRange, ReadFirst};
use super::{Call, Entry, Flow, Halt, MAX_STRING_BYTES, SYNTAX_ERROR, Space, integer};
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;

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
        space.note(Event::SetBit, call.args[1]);
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
    let args = &call.args[2..];
    let may_start_alone = call.dialect.counts_bits_from();
    let first = if may_start_alone { ReadFirst::Unit } else { ReadFirst::End };
    let parse = |args: &[&[u8]]| match args {
        [_] if !may_start_alone => Err(SYNTAX_ERROR.into()),
        args => BitRange::parse(args, first),
    };
    if call.dialect.reads_bit_range_first() {
        parse(args)?;
    }
    let Some(Entry { value, .. }) = space.string(call.args[1])? else {
        answer.integer(0);
        return Ok(());
    };
    // Where the arguments are read last, the bounds are compared before the unit is read: it may then be anything.
    let is_backwards = args.len() == 3 && BitRange::parse(&args[..2], first)?.is_backwards_from_end();
    let range = if is_backwards { BitRange::parse(&args[..2], first)? } else { parse(args)? };
    let bits = if range.is_backwards_from_end() { None } else { range.bits(value.len()) };
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
    let args = &call.args[3..];
    if call.dialect.reads_bit_range_first() {
        BitRange::parse(args, ReadFirst::Unit)?;
    }
    let Some(Entry { value, .. }) = space.string(call.args[1])? else {
        answer.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let bits = BitRange::parse(args, ReadFirst::Unit)?.bits(value.len());
    let behind = bits.as_ref().filter(|_| !wanted && args.len() < 2).map_or(-1, |bits| bits.end() + 1);
    let first = bits.into_iter().flat_map(|bits| masked(value, bits)).find_map(|(at, byte, mask)| {
        let hits = if wanted { byte } else { !byte } & mask;
        (hits != 0).then(|| at * 8 + i64::from(hits.leading_zeros()))
    });
    answer.integer(first.unwrap_or(behind));
    Ok(())
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
    use crate::dialect::Dialect;
    use crate::resp::{Answer, Protocol};
    use crate::server_info::ServerInfo;

    /// A space where `k` holds `value`, and expires.
    pub(in crate::string) fn holding(value: &[u8]) -> Space {
        let mut space = Space::new(0);
        space.load(b"k", Held::String(Entry { value: value.to_vec(), expires_at_ms: Some(1000) }));
        space.load(b"list", Held::Other(b"list".to_vec()));
        space
    }

    /// The reply to a command line, split at blanks, with its line ends as blanks.
    pub(in crate::string) fn run(space: &mut Space, line: &str) -> String {
        run_as(Dialect::default(), space, line)
    }

    fn run_as(dialect: Dialect<'_>, space: &mut Space, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, Protocol::Resp2);
        let call = Call { args: &args, dialect };
        let flow = table().resolve(&args).unwrap().run.unwrap()(&call, space, &mut answer);
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
    fn later_servers_read_the_arguments_before_the_key() {
        let server = |name: &str, version: &str| ServerInfo { name: name.to_owned(), version: version.to_owned() };
        let [redis, valkey] = [server("redis", "8.0.6"), server("valkey", "8.0.1")];
        let not_an_integer = "-ERR value is not an integer or out of range";
        for (line, by_redis, by_valkey) in [
            ("BITCOUNT k 0", "-ERR syntax error", ":26"),
            ("BITCOUNT k -1", "-ERR syntax error", ":4"),
            ("BITCOUNT none 0", "-ERR syntax error", ":0"),
            ("BITCOUNT none a b", not_an_integer, not_an_integer),
            ("BITCOUNT list 0 x", not_an_integer, not_an_integer),
            ("BITCOUNT k 0 x nonsense", not_an_integer, "-ERR syntax error"),
            ("BITCOUNT k -1 -2 nonsense", "-ERR syntax error", "-ERR syntax error"),
            ("BITCOUNT k -1 -2 BIT", ":0", ":0"),
            ("BITPOS none 1 a", not_an_integer, not_an_integer),
            ("BITPOS none 1 0 1 nonsense", "-ERR syntax error", "-ERR syntax error"),
            ("BITPOS list 1 0 x", not_an_integer, not_an_integer),
        ] {
            for (server, reply) in [(&redis, by_redis), (&valkey, by_valkey)] {
                assert_eq!(run_as(Dialect::new(server, true), &mut holding(b"foobar"), line), reply, "{line}");
            }
        }
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
}
