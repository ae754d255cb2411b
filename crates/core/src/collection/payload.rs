//! A collection as DUMP gives it, and RESTORE takes it: made and read without a server.
//!
//! It is the plainest of the forms that servers read. Fields that expire have a form of their own in each kind of server that knows
//! such. (`rdb.c` of Redis 7.4 and of Valkey 9.0.)

use super::{Collection, Field, Hash};
use crate::payload::{OLDEST_VERSION, PayloadReader, PayloadWriter};

const SET: u8 = 2;
const HASH: u8 = 4;
/// Valkey: each field with its expiry.
const HASH_2: u8 = 22;
/// Redis: the earliest expiry, and each field with by how much its own is later.
const HASH_METADATA: u8 = 24;

/// The version of Redis 7.4, and that of Valkey 9.0.
const REDIS_VERSION: u16 = 12;
const VALKEY_VERSION: u16 = 80;

/// Whose form payloads have of hashes whose fields expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiryForm {
    /// That of Redis from 7.4 on.
    Redis,
    /// That of Valkey from 9.0 on.
    Valkey,
}

impl FieldExpiryForm {
    /// That of a payload, where it is of a hash whose fields expire.
    pub fn of_payload(payload: &[u8]) -> Option<Self> {
        match *payload.first()? {
            HASH_2 => Some(Self::Valkey),
            HASH_METADATA => Some(Self::Redis),
            _ => None,
        }
    }
}

impl Collection {
    /// What RESTORE takes for it.
    pub fn payload(&self, form: FieldExpiryForm) -> Vec<u8> {
        match self {
            Self::Set(set) => {
                let mut out = PayloadWriter::new(SET);
                out.length(set.len() as u64);
                set.iter().for_each(|member| out.text(member));
                out.finish(OLDEST_VERSION)
            }
            Self::Hash(hash) if hash.iter().all(|(_, field)| field.expires_at_ms.is_none()) => {
                let mut out = PayloadWriter::new(HASH);
                out.length(hash.len() as u64);
                for (name, field) in hash.iter() {
                    out.text(name);
                    out.text(&field.value);
                }
                out.finish(OLDEST_VERSION)
            }
            Self::Hash(hash) if form == FieldExpiryForm::Valkey => for_valkey(hash),
            Self::Hash(hash) => for_redis(hash),
        }
    }
}

impl Hash {
    /// The hash whose fields expire that [`Collection::payload`] made, in either form, or a server that keeps them as plainly. None for
    /// all else, and where a field is named twice, which servers refuse.
    pub(crate) fn of_expiring_payload(payload: &[u8]) -> Option<Self> {
        let form = FieldExpiryForm::of_payload(payload)?;
        let mut reader = PayloadReader::open(payload)?;
        let mut hash = Self::default();
        match form {
            // The number had another meaning before.
            FieldExpiryForm::Valkey if reader.version < VALKEY_VERSION => return None,
            FieldExpiryForm::Valkey => {
                for _ in 0..reader.length()? {
                    let (name, value) = (reader.text()?.into_owned(), reader.text()?.into_owned());
                    let at_ms = i64::from_le_bytes(reader.array()?);
                    let field = Field { value, expires_at_ms: (at_ms >= 0).then_some(at_ms) };
                    hash.insert(name, field).is_none().then_some(())?;
                }
            }
            FieldExpiryForm::Redis => {
                let first = i64::from_le_bytes(reader.array()?);
                for _ in 0..reader.length()? {
                    let expires_at_ms = match reader.length()? {
                        0 => None,
                        later => Some(first.checked_add_unsigned(later - 1).filter(|at_ms| *at_ms >= 0)?),
                    };
                    let (name, value) = (reader.text()?.into_owned(), reader.text()?.into_owned());
                    hash.insert(name, Field { value, expires_at_ms }).is_none().then_some(())?;
                }
            }
        }
        (reader.rest.is_empty() && !hash.is_empty()).then_some(hash)
    }
}

fn for_valkey(hash: &Hash) -> Vec<u8> {
    let mut out = PayloadWriter::new(HASH_2);
    out.length(hash.len() as u64);
    for (name, Field { value, expires_at_ms }) in hash.iter() {
        out.text(name);
        out.text(value);
        out.raw(&expires_at_ms.unwrap_or(-1).to_le_bytes());
    }
    out.finish(VALKEY_VERSION)
}

fn for_redis(hash: &Hash) -> Vec<u8> {
    let first = hash.iter().filter_map(|(_, field)| field.expires_at_ms).min().unwrap_or_default();
    let mut out = PayloadWriter::new(HASH_METADATA);
    out.raw(&first.to_le_bytes());
    out.length(hash.len() as u64);
    for (name, Field { value, expires_at_ms }) in hash.iter() {
        out.length(expires_at_ms.map_or(0, |at| at.abs_diff(first).saturating_add(1)));
        out.text(name);
        out.text(value);
    }
    out.finish(REDIS_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::CollectionKind;

    fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    fn expiring() -> Collection {
        let fields = [("a", None), ("b", Some(9000)), ("c", Some(5000)), ("d", Some(i64::MAX))];
        let field = |(name, expires_at_ms): (&str, _)| (name.into(), Field { value: b"v".to_vec(), expires_at_ms });
        Collection::Hash(fields.map(field).into_iter().collect())
    }

    #[test]
    fn what_is_made_is_read() {
        let plain = [
            Collection::of_texts(CollectionKind::Set, texts(&["", "7", "007", "-3"])),
            Collection::of_texts(CollectionKind::Hash, texts(&["f", "v", "", ""])),
        ];
        for form in [FieldExpiryForm::Redis, FieldExpiryForm::Valkey] {
            let payload = expiring().payload(form);
            assert_eq!(Hash::of_expiring_payload(&payload).map(Collection::Hash), Some(expiring()), "{form:?}");
            assert_eq!(FieldExpiryForm::of_payload(&payload), Some(form));
            for plain in &plain {
                let payload = plain.payload(form);
                assert_eq!((FieldExpiryForm::of_payload(&payload), Hash::of_expiring_payload(&payload)), (None, None));
            }
        }
    }

    #[test]
    fn what_servers_refuse_is_not_read() {
        let hash = |names: &[&str], said: u64, more: &[u8], version| {
            let mut out = PayloadWriter::new(HASH_2);
            out.length(said);
            for name in names {
                out.text(name.as_bytes());
                out.text(b"v");
                out.raw(&9000_i64.to_le_bytes());
            }
            out.raw(more);
            Hash::of_expiring_payload(&out.finish(version))
        };
        assert!(hash(&["a", "b"], 2, b"", VALKEY_VERSION).is_some());
        for (names, said, more, version) in [
            (&["a", "a"][..], 2, &b""[..], VALKEY_VERSION),
            (&[], 0, b"", VALKEY_VERSION),
            (&["a"], 2, b"", VALKEY_VERSION),
            (&["a"], u64::MAX, b"", VALKEY_VERSION),
            (&["a"], 1, b"more", VALKEY_VERSION),
            (&["a"], 1, b"", 11),
        ] {
            assert_eq!(hash(names, said, more, version), None, "{names:?} {said}");
        }
        let mut early = PayloadWriter::new(HASH_METADATA);
        early.raw(&(-5_i64).to_le_bytes());
        [1, 1].into_iter().for_each(|length| early.length(length));
        ["f", "v"].into_iter().for_each(|text| early.text(text.as_bytes()));
        assert_eq!(Hash::of_expiring_payload(&early.finish(REDIS_VERSION)), None);
    }
}
