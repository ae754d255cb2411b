//! Dictionaries as they lie in the server: one hash beside the layout, each under the sum of its bytes.
//!
//! What a name stands for never changes, so a dictionary is written before the layout that names it, read by
//! whoever reads that layout, and taken away after the last layout that named it; and one that was damaged or
//! exchanged is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::{CodecError, large};
use crate::resp::{Reply, write_command};

/// The server's hash, in database 0, that holds dictionaries by their names.
pub const DICTIONARIES_KEY: &[u8] = b"keyfold:dictionaries";

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

/// Asks a server for dictionaries; one reply.
pub fn ask_dictionaries(ids: &BTreeSet<DictionaryId>, wire: &mut Vec<u8>) {
    let names: Vec<String> = ids.iter().map(DictionaryId::to_string).collect();
    let mut command: Vec<&[u8]> = vec![b"HMGET", DICTIONARIES_KEY];
    command.extend(names.iter().map(String::as_bytes));
    write_command(wire, &command);
}

/// Reads the reply to [`ask_dictionaries`]: those that are there and whole.
///
/// # Errors
/// What the server said instead.
pub fn read_dictionaries(
    ids: &BTreeSet<DictionaryId>,
    reply: &[u8],
) -> Result<BTreeMap<DictionaryId, Vec<u8>>, String> {
    match Reply::parse(reply) {
        Ok(Reply::Array(values)) => {
            let found = ids.iter().zip(values);
            Ok(found.filter_map(|(id, packed)| Some((*id, unpack(*id, packed.bytes()?).ok()?))).collect())
        }
        _ => Err(String::from_utf8_lossy(reply).trim_end().to_owned()),
    }
}

/// The bytes that the server keeps: compressed, as dictionaries are text.
pub fn pack(dictionary: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    large::encode(dictionary, &mut packed);
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
