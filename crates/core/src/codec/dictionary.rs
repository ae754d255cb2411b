//! Dictionaries by the sums of their bytes, and as a server keeps them ([`crate::admin::dictionaries`]).

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::{CodecError, Effort, large};

/// The name of a dictionary: the first half of its bytes' SHA-256, in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId([u8; 16]);

impl DictionaryId {
    /// The name of these bytes.
    pub fn of(dictionary: &[u8]) -> Self {
        let sum = Sha256::digest(dictionary);
        let mut id = [0; 16];
        id.copy_from_slice(&sum[..16]);
        Self(id)
    }
}

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DictionaryId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bits = u128::from_str_radix(text, 16).map_err(|_| ())?;
        let id = Self(bits.to_be_bytes());
        (id.to_string() == text).then_some(id).ok_or(())
    }
}

/// The bytes that the server keeps: compressed, as dictionaries are text.
pub fn pack(dictionary: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    large::encode(dictionary, Effort::Full, &mut packed);
    packed
}

/// The dictionary that these bytes of the server's are.
///
/// # Errors
/// Other bytes than [`pack`] made of the dictionary of this name.
pub fn unpack(id: DictionaryId, packed: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut dictionary = Vec::new();
    large::decode(packed, &mut dictionary).map_err(|error| CodecError::payload(format!("dictionary {id}: {error}")))?;
    if DictionaryId::of(&dictionary) != id {
        return Err(CodecError::payload(format!("dictionary {id} holds something else than its name says")));
    }
    Ok(dictionary)
}
