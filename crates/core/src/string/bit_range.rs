//! The part of a value that BITCOUNT and BITPOS look at: how it is written, and which bits it comes to.
//!
//! ```text
//! BITCOUNT key [start end [BYTE|BIT]]       Valkey 8.0 takes a start alone
//! BITPOS key bit [start [end [BYTE|BIT]]]
//! ```
//! Redis 7.0 bitops.c, and what later servers say otherwise.

use std::ops::RangeInclusive;

use super::{Halt, SYNTAX_ERROR, integer};
use crate::resp::word::is_word;

/// What the bounds of a range count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Which of two wrong arguments is complained of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFirst {
    End,
    Unit,
}

/// A range as it is written. Negative bounds count from the value's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BitRange {
    start: i64,
    /// None where it isn't said: to the value's end.
    end: Option<i64>,
    unit: Unit,
}

impl BitRange {
    /// Reads the arguments behind what else a command takes; none of them are the whole value.
    ///
    /// # Errors
    /// No integers, another unit, or more arguments.
    pub(super) fn parse(args: &[&[u8]], first: ReadFirst) -> Result<Self, Halt> {
        let mut range = Self { start: 0, end: None, unit: Unit::Byte };
        match *args {
            [] => {}
            [start] => range.start = integer(start)?,
            [start, end] => (range.start, range.end) = (integer(start)?, Some(integer(end)?)),
            [start, end, unit] => {
                range.start = integer(start)?;
                if first == ReadFirst::Unit {
                    Unit::parse(unit)?;
                }
                range.end = Some(integer(end)?);
                range.unit = Unit::parse(unit)?;
            }
            _ => return Err(SYNTAX_ERROR.into()),
        }
        Ok(range)
    }

    /// Whether both bounds count from the end, and the start lies behind the end. BITCOUNT takes that for no bits at all,
    /// even where both lie before the value.
    pub(super) fn is_backwards_from_end(self) -> bool {
        self.end.is_some_and(|end| self.start < 0 && end < 0 && self.start > end)
    }

    /// The bits that are meant of a value of `len` bytes; none where there are none.
    pub(super) fn bits(self, len: usize) -> Option<RangeInclusive<i64>> {
        let len = i64::try_from(len).ok()?;
        let total = match self.unit {
            Unit::Byte => len,
            Unit::Bit => len.checked_mul(8)?,
        };
        let resolve = |bound: i64| if bound < 0 { (total + bound).max(0) } else { bound };
        let (start, end) = (resolve(self.start), resolve(self.end.unwrap_or(-1)).min(total - 1));
        if start > end {
            return None;
        }
        match self.unit {
            Unit::Byte => Some(start.checked_mul(8)?..=end.checked_mul(8)? + 7),
            Unit::Bit => Some(start..=end),
        }
    }
}
