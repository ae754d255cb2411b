//! One member, field, value or score of a collection.

use keyfold_core::memory::ValueShape;

use crate::text::Text;

/// A member, field, value or score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'b> {
    /// An integer.
    Integer(i64),
    /// A string: its length, and its first bytes.
    Bytes {
        /// How long it is.
        len: u64,
        /// Its first bytes; all of them, unless it is longer than what is kept.
        head: &'b [u8],
    },
}

impl<'b> Part<'b> {
    pub(crate) fn whole(bytes: &'b [u8]) -> Self {
        Self::Bytes { len: bytes.len() as u64, head: bytes }
    }

    pub(crate) fn of(text: &'b Text) -> Self {
        Self::Bytes { len: text.len, head: &text.head }
    }

    /// As the memory model takes it.
    pub fn shape(&self) -> ValueShape {
        match self {
            Self::Integer(integer) => ValueShape::Integer(*integer),
            Self::Bytes { len, head } if *len == head.len() as u64 => ValueShape::of(head),
            Self::Bytes { len, .. } => ValueShape::Bytes(*len),
        }
    }

    /// As a client would get it.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Integer(integer) => integer.to_string().into_bytes(),
            Self::Bytes { head, .. } => head.to_vec(),
        }
    }
}
