//! What of a key, field or value its cost depends on.

use crate::number::parse_integer;

/// Bytes, by what their cost depends on: the integer that they spell, or their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueShape {
    /// The one decimal spelling of this integer; servers keep it as a number.
    Integer(i64),
    /// So many bytes of anything else.
    Bytes(u64),
}

impl ValueShape {
    /// The shape of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        parse_integer(bytes).map_or(Self::Bytes(bytes.len() as u64), Self::Integer)
    }

    /// How many bytes they are.
    pub fn len(self) -> u64 {
        match self {
            Self::Integer(value) => {
                let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
                u64::from(digits) + u64::from(value < 0)
            }
            Self::Bytes(len) => len,
        }
    }

    /// Whether there is no byte.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_only_what_prints_back() {
        assert_eq!(ValueShape::of(b"-17"), ValueShape::Integer(-17));
        assert_eq!(ValueShape::of(b"017"), ValueShape::Bytes(3));
        assert_eq!(ValueShape::of(b""), ValueShape::Bytes(0));
        assert_eq!(ValueShape::of(b"9223372036854775808"), ValueShape::Bytes(19));
    }

    #[test]
    fn an_integer_is_as_long_as_its_spelling() {
        for text in ["0", "9", "10", "-1", "-10", "9223372036854775807", "-9223372036854775808"] {
            let shape = ValueShape::of(text.as_bytes());
            assert!(matches!(shape, ValueShape::Integer(_)));
            assert_eq!(shape.len(), text.len() as u64, "{text}");
        }
    }
}
