//! Text tables: the text that keys leave in fields, in fewer bytes.
//!
//! What a template calls text repeats itself: `languages` in a hundred thousand keys, `-dev` at the end of every
//! tenth package. A *text table* is a list of such byte strings, its *symbols*, trained once from keys and kept in the
//! layout. A symbol takes one byte in a field.
//!
//! ```text
//! packed text   FE, the text as it is                where the codes would be longer: never more than one byte is added
//!               codes, one after another             else
//!
//! code          00 … FD       the symbol with this code
//!               FF, a byte    that byte, which no symbol spells
//!
//! the table     01, then for each symbol its length, 1 to 16, and its bytes        in a layout: base64url
//! ```
//! A symbol of one byte up to FD has that byte as its code; all others take the codes that are left, from 00 up, in
//! the table's order. There are at most 254 symbols, and none twice.
//!
//! Text is packed 128 bytes at a time, so that symbols never go over such an edge. Of all ways to spell those bytes,
//! it is one with the fewest; among these the first symbol is the longest possible, then the second, and so on.
//!
//! A text that fills a field by itself and is a decimal number as a listpack takes it (`-?[1-9][0-9]*` or `0` in 64
//! bits) stays as it is if all its characters are symbols, and the number takes no more in a listpack than the codes
//! would. Its characters then are their own codes.
//!
//! So what a text is packed to follows from the table alone, and may never change: places are made of it.

mod error;
mod matcher;
mod pack;
#[cfg(test)]
mod tests;
mod train;

pub use error::TextTableError;
pub use train::{Training, train};

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::base64;
use super::name::Name;
use matcher::Matcher;

/// The most symbols of a table.
pub const MOST_SYMBOLS: usize = 254;
/// The longest symbol.
pub const MOST_SYMBOL_BYTES: usize = 16;
/// What the bytes of a table begin with.
const VERSION: u8 = 1;

/// Symbols and their codes. Two tables are equal where they pack every text alike.
#[derive(Clone)]
pub struct TextTable {
    /// In the table's order.
    symbols: Vec<Vec<u8>>,
    matcher: Matcher,
    /// The code of each symbol.
    codes: Vec<u8>,
    /// The symbol of each code; as many of its bytes as its length says.
    spelled: Box<[(u8, [u8; MOST_SYMBOL_BYTES]); 256]>,
}

impl TextTable {
    /// A table of these symbols.
    ///
    /// # Errors
    /// No symbol, too many, or one that is empty, too long or there twice.
    pub fn new(symbols: Vec<Vec<u8>>) -> Result<Self, TextTableError> {
        check(&symbols)?;
        let codes = codes(&symbols);
        let mut spelled = Box::new([(0, [0; MOST_SYMBOL_BYTES]); 256]);
        for (symbol, code) in symbols.iter().zip(&codes) {
            let (len, bytes) = &mut spelled[usize::from(*code)];
            *len = u8::try_from(symbol.len()).unwrap_or(u8::MAX);
            bytes[..symbol.len()].copy_from_slice(symbol);
        }
        Ok(Self { matcher: Matcher::new(&symbols), symbols, codes, spelled })
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// Another version, bytes that end within a symbol, and all that [`Self::new`] refuses.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TextTableError> {
        let mut rest = match bytes.split_first() {
            Some((&VERSION, rest)) => rest,
            version => return Err(TextTableError::Version { given: version.map(|(version, _)| *version) }),
        };
        let mut symbols = Vec::new();
        while let Some(&len) = rest.split_off_first() {
            let symbol = rest.split_off(..usize::from(len)).ok_or(TextTableError::Cut { symbol: symbols.len() + 1 })?;
            symbols.push(symbol.to_vec());
        }
        Self::new(symbols)
    }

    /// The table as bytes, see the module's head.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for symbol in &self.symbols {
            bytes.push(u8::try_from(symbol.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(symbol);
        }
        bytes
    }

    /// Reads what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// As [`Self::from_bytes`]; text that is no base64url.
    pub fn from_text(text: &str) -> Result<Self, TextTableError> {
        Self::from_bytes(&base64::decode(text.as_bytes()).ok_or(TextTableError::NotBase64)?)
    }

    /// The bytes as base64url: what stands in a layout.
    pub fn to_text(&self) -> String {
        let mut text = Name::new();
        base64::encode(self.to_bytes(), &mut text);
        text.iter().map(|character| char::from(*character)).collect()
    }

    /// The symbols, in the table's order.
    pub fn symbols(&self) -> &[Vec<u8>] {
        &self.symbols
    }

    /// A short name that tells it from others, for people.
    pub fn fingerprint(&self) -> String {
        format!("{:08x}", self.sum() >> 32)
    }

    /// A sum of all that packing follows from.
    pub(crate) fn sum(&self) -> u64 {
        xxh3_64(&self.to_bytes())
    }
}

/// Every other field follows from the symbols.
impl PartialEq for TextTable {
    fn eq(&self, other: &Self) -> bool {
        self.symbols == other.symbols
    }
}

impl Eq for TextTable {}

impl fmt::Debug for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextTable({}, {} symbols)", self.fingerprint(), self.symbols.len())
    }
}

fn check(symbols: &[Vec<u8>]) -> Result<(), TextTableError> {
    if symbols.is_empty() || symbols.len() > MOST_SYMBOLS {
        return Err(TextTableError::Symbols { given: symbols.len() });
    }
    if let Some(at) = symbols.iter().position(|symbol| symbol.is_empty() || symbol.len() > MOST_SYMBOL_BYTES) {
        return Err(TextTableError::Length { symbol: at + 1, given: symbols[at].len() });
    }
    let mut sorted: Vec<_> = symbols.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(TextTableError::Twice { bytes: pair[0].clone() }),
        None => Ok(()),
    }
}

/// The code of each symbol, see the module's head.
fn codes(symbols: &[Vec<u8>]) -> Vec<u8> {
    let own = |symbol: &Vec<u8>| matches!(symbol.as_slice(), [byte] if *byte < pack::RAW).then(|| symbol[0]);
    let mut is_taken = [false; 256];
    symbols.iter().filter_map(own).for_each(|code| is_taken[usize::from(code)] = true);
    let mut free = (0..pack::RAW).filter(|code| !is_taken[usize::from(*code)]);
    // There are as many codes as symbols at the most, so one is always free.
    symbols.iter().map(|symbol| own(symbol).or_else(|| free.next()).unwrap_or(pack::ESCAPE)).collect()
}
