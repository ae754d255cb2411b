//! BITOP: the bits of several strings made one.
//!
//! Sources are padded with zero bytes to the longest of them. Redis 7.0 bitops.c; of DIFF, DIFF1, ANDOR and ONE Redis 8.2.

use super::{Call, Entry, Flow, Halt, Held, SYNTAX_ERROR, Space};
use crate::dialect::Since;
use crate::named;
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::is_word;

named! {
    /// What BITOP does with its sources, the first of which is *x*.
    enum Operation {
        /// The bits that all have.
        And = "AND",
        /// The bits that any has.
        Or = "OR",
        /// The bits that an odd number of them have.
        Xor = "XOR",
        /// The bits that x, the only one, doesn't have.
        Not = "NOT",
        /// The bits that x has and none of the others.
        Diff = "DIFF",
        /// The bits that x doesn't have and any of the others has.
        Diff1 = "DIFF1",
        /// The bits that x has and any of the others.
        Andor = "ANDOR",
        /// The bits that exactly one has.
        One = "ONE",
    }
}

impl Operation {
    fn parse(arg: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| is_word(arg, operation.name()))
    }

    /// The first servers that have it; none where all have.
    fn since(self) -> Option<Since> {
        let is_old = matches!(self, Self::And | Self::Or | Self::Xor | Self::Not);
        (!is_old).then_some(Since::BITOP_DIFF)
    }

    /// # Errors
    /// It doesn't take so many sources.
    fn check_sources(self, count: usize) -> Flow {
        let needs_others = matches!(self, Self::Diff | Self::Diff1 | Self::Andor);
        if self == Self::Not && count != 1 {
            return Err("ERR BITOP NOT must be called with a single source key.".into());
        }
        if needs_others && count < 2 {
            let name = self.name();
            return Err(Halt::Error(format!("ERR BITOP {name} must be called with at least two source keys.")));
        }
        Ok(())
    }

    /// Combines the sources, as long as the longest of them.
    fn apply(self, sources: &[&[u8]]) -> Vec<u8> {
        let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
        let (first, others) = sources.split_first().map_or((&[][..], &[][..]), |(first, others)| (*first, others));
        let mut value = first.to_vec();
        value.resize(len, 0);
        let any_other = || {
            let mut any = vec![0; len];
            others.iter().for_each(|source| join(&mut any, source, |byte, other| byte | other));
            any
        };
        match self {
            Self::And => others.iter().for_each(|source| join(&mut value, source, |byte, other| byte & other)),
            Self::Or => others.iter().for_each(|source| join(&mut value, source, |byte, other| byte | other)),
            Self::Xor => others.iter().for_each(|source| join(&mut value, source, |byte, other| byte ^ other)),
            Self::Not => value.iter_mut().for_each(|byte| *byte = !*byte),
            Self::Diff => join(&mut value, &any_other(), |byte, other| byte & !other),
            Self::Diff1 => join(&mut value, &any_other(), |byte, other| !byte & other),
            Self::Andor => join(&mut value, &any_other(), |byte, other| byte & other),
            Self::One => {
                let mut several = vec![0; len];
                for source in others {
                    let both = several.iter_mut().zip(&value).zip(*source);
                    both.for_each(|((several, any), byte)| *several |= any & byte);
                    join(&mut value, source, |any, byte| any | byte);
                }
                join(&mut value, &several, |any, several| any & !several);
            }
        }
        value
    }
}

/// Joins a source to a value that is at least as long; the source reads as zero behind its end.
fn join(value: &mut [u8], source: &[u8], join: impl Fn(u8, u8) -> u8) {
    let padded = source.iter().copied().chain(std::iter::repeat(0));
    value.iter_mut().zip(padded).for_each(|(byte, other)| *byte = join(*byte, other));
}

/// The first servers that have a request's operation; none where every server has it.
pub(super) fn since_of_operation(args: &[&[u8]]) -> Option<Since> {
    args.get(1).and_then(|operation| Operation::parse(operation)).and_then(Operation::since)
}

/// BITOP operation destination key…: the length written. Where all sources are empty, the destination is removed.
pub(super) fn bitop(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let operation = Operation::parse(call.args[1])
        .filter(|operation| operation.since().is_none_or(|since| call.dialect.knows(since)))
        .ok_or(SYNTAX_ERROR)?;
    let (destination, keys) = (call.args[2], &call.args[3..]);
    operation.check_sources(keys.len())?;
    let mut sources: Vec<&[u8]> = Vec::with_capacity(keys.len());
    for key in keys {
        sources.push(space.string(key)?.map_or(&[], |entry| &entry.value));
    }
    let value = operation.apply(&sources);
    answer.integer(i64::try_from(value.len()).unwrap_or(i64::MAX));
    if !value.is_empty() {
        space.put(destination, Entry { value, expires_at_ms: None });
        space.note(Event::Set, destination);
    } else if *space.held(destination) != Held::Nothing {
        space.remove(destination);
        space.note(Event::Del, destination);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::bits::tests::{holding, run};
    use super::*;

    #[test]
    fn shorter_sources_are_padded_and_the_expiry_is_gone() {
        let mut space = holding(b"\xf0\x0f");
        space.load(b"b", Held::String(Entry { value: b"\xff".to_vec(), expires_at_ms: None }));
        for (operation, value) in [
            ("AND", b"\xf0\0"),
            ("or", b"\xff\x0f"),
            ("Xor", b"\x0f\x0f"),
            ("DIFF", b"\0\x0f"),
            ("diff1", b"\x0f\0"),
            ("AndOr", b"\xf0\0"),
            ("ONE", b"\x0f\x0f"),
        ] {
            assert_eq!(run(&mut space, &format!("BITOP {operation} to k b")), ":2");
            assert_eq!(space.string(b"to").unwrap().unwrap().value, value, "{operation}");
        }
        assert_eq!(run(&mut space, "BITOP NOT k k"), ":2");
        let inverted = Entry { value: b"\x0f\xf0".to_vec(), expires_at_ms: None };
        assert_eq!(space.string(b"k").unwrap(), Some(&inverted));
    }

    #[test]
    fn each_bit_is_what_its_operation_says_of_three_sources() {
        // Bit by bit all eight combinations of x, y and z.
        let sources: [&[u8]; 3] = [b"\x0f", b"\x33", b"\x55"];
        for operation in Operation::ALL.into_iter().filter(|operation| *operation != Operation::Not) {
            let expected = (0..8).fold(0, |byte: u8, bit| {
                let [x, y, z] = sources.map(|source| source[0] << bit & 0x80 != 0);
                let is_set = match operation {
                    Operation::And => x && y && z,
                    Operation::Or => x || y || z,
                    Operation::Xor => x ^ y ^ z,
                    Operation::Diff => x && !(y || z),
                    Operation::Diff1 => !x && (y || z),
                    Operation::Andor => x && (y || z),
                    Operation::One => u8::from(x) + u8::from(y) + u8::from(z) == 1,
                    Operation::Not => unreachable!("it has one source"),
                };
                byte << 1 | u8::from(is_set)
            });
            assert_eq!(operation.apply(&sources), [expected], "{operation}");
        }
    }

    #[test]
    fn the_number_of_sources_is_checked() {
        let mut space = holding(b"a");
        assert_eq!(run(&mut space, "BITOP NOT to k k"), "-ERR BITOP NOT must be called with a single source key.");
        for name in ["DIFF", "DIFF1", "ANDOR"] {
            let error = format!("-ERR BITOP {name} must be called with at least two source keys.");
            assert_eq!(run(&mut space, &format!("BITOP {} to list", name.to_lowercase())), error);
        }
        assert_eq!(run(&mut space, "BITOP ONE to k"), ":1");
        assert_eq!(run(&mut space, "BITOP NONE to k"), "-ERR syntax error");
    }

    #[test]
    fn nothing_removes_the_destination() {
        let mut space = holding(b"a");
        assert_eq!(run(&mut space, "BITOP OR none none"), ":0");
        assert!(space.changes().next().is_none());
        assert_eq!(run(&mut space, "BITOP DIFF list none none"), ":0");
        assert_eq!(*space.held(b"list"), Held::Nothing);
    }
}
