//! Why bytes are no text table.

use super::{MOST_SYMBOL_BYTES, MOST_SYMBOLS};

/// Why bytes are no text table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextTableError {
    /// Nothing to pack: the placement has no buckets, or keys leave no text in their fields.
    #[error("keys leave no text in fields here, so that there is nothing to pack; leave it out")]
    NoText,
    /// Not base64url.
    #[error("it is no base64url; write it as `keyfold plan` made it")]
    NotBase64,
    /// It begins with another version, or with nothing.
    #[error("{}", match given {
        Some(given) => format!("it is of version {given}, and this keyfold reads version 1; use the keyfold that made it, or a newer one"),
        None => "it is empty; write it as `keyfold plan` made it, or leave it out".to_owned(),
    })]
    Version {
        /// The first byte.
        given: Option<u8>,
    },
    /// It ends within a symbol.
    #[error("it ends within symbol {symbol}; write it as `keyfold plan` made it")]
    Cut {
        /// Which symbol, from 1.
        symbol: usize,
    },
    /// Too few or too many symbols.
    #[error("it has {given} symbols, and a table has 1 to {MOST_SYMBOLS}")]
    Symbols {
        /// How many.
        given: usize,
    },
    /// A symbol too short or too long.
    #[error("symbol {symbol} has {given} bytes, and a symbol has 1 to {MOST_SYMBOL_BYTES}")]
    Length {
        /// Which symbol, from 1.
        symbol: usize,
        /// Its length.
        given: usize,
    },
    /// A symbol that is there already.
    #[error("the symbol `{}` is there twice", .bytes.escape_ascii())]
    Twice {
        /// Its bytes.
        bytes: Vec<u8>,
    },
}
