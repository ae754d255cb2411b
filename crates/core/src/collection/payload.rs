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

    /// What [`Self::payload`] made, in either form, and a server's own where it is as plain. None for all else, for which a server
    /// has to be asked.
    pub(crate) fn of_payload(payload: &[u8]) -> Option<Self> {
        let mut reader = PayloadReader::open(payload)?;
        let (len, collection) = if reader.kind == SET {
            let members = each(&mut reader, |reader| Some(reader.text()?.into_owned()))?;
            (members.len(), Self::Set(members.into_iter().collect()))
        } else {
            let fields = fields(&mut reader)?;
            (fields.len(), Self::Hash(fields.into_iter().collect()))
        };
        // Servers refuse what names a member twice, or none.
        (reader.rest.is_empty() && len > 0 && collection.len() == len).then_some(collection)
    }
}

fn fields(reader: &mut PayloadReader<'_>) -> Option<Vec<(Vec<u8>, Field)>> {
    match (reader.kind, reader.version) {
        (HASH, _) => each(reader, |reader| field(reader, None)),
        (HASH_2, VALKEY_VERSION..) => each(reader, |reader| {
            let (name, field) = field(reader, None)?;
            let at_ms = i64::from_le_bytes(reader.array()?);
            Some((name, Field { expires_at_ms: (at_ms >= 0).then_some(at_ms), ..field }))
        }),
        (HASH_METADATA, _) => {
            let first = i64::from_le_bytes(reader.array()?);
            each(reader, |reader| {
                let expires_at_ms = match reader.length()? {
                    0 => None,
                    later => Some(first.checked_add_unsigned(later - 1).filter(|at_ms| *at_ms >= 0)?),
                };
                field(reader, expires_at_ms)
            })
        }
        _ => None,
    }
}

fn field(reader: &mut PayloadReader<'_>, expires_at_ms: Option<i64>) -> Option<(Vec<u8>, Field)> {
    Some((reader.text()?.into_owned(), Field { value: reader.text()?.into_owned(), expires_at_ms }))
}

/// As many as are said first.
fn each<'p, M>(reader: &mut PayloadReader<'p>, read: impl Fn(&mut PayloadReader<'p>) -> Option<M>) -> Option<Vec<M>> {
    (0..reader.length()?).map(|_| read(reader)).collect()
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
        for form in [FieldExpiryForm::Redis, FieldExpiryForm::Valkey] {
            for collection in [
                Collection::of_texts(CollectionKind::Set, texts(&["", "7", "007", "-3"])),
                Collection::of_texts(CollectionKind::Hash, texts(&["f", "v", "", ""])),
                expiring(),
            ] {
                let payload = collection.payload(form);
                assert_eq!(Collection::of_payload(&payload).as_ref(), Some(&collection), "{form:?}");
                let is_of_fields_that_expire = collection == expiring();
                assert_eq!(FieldExpiryForm::of_payload(&payload), is_of_fields_that_expire.then_some(form));
            }
        }
    }

    #[test]
    fn what_servers_refuse_is_not_read() {
        let set = |members: &[&str], said: u64, more: &[u8]| {
            let mut out = PayloadWriter::new(SET);
            out.length(said);
            members.iter().for_each(|member| out.text(member.as_bytes()));
            out.raw(more);
            Collection::of_payload(&out.finish(OLDEST_VERSION))
        };
        assert!(set(&["a", "b"], 2, b"").is_some());
        for (members, said, more) in [
            (&["a", "a"][..], 2, &b""[..]),
            (&[], 0, b""),
            (&["a"], 2, b""),
            (&["a"], u64::MAX, b""),
            (&["a"], 1, b"more"),
        ] {
            assert_eq!(set(members, said, more), None, "{members:?} {said}");
        }
        // Another type, one of a version before it meant that, and a time before 1970.
        assert_eq!(Collection::of_payload(&PayloadWriter::new(0).finish(OLDEST_VERSION)), None);
        let Collection::Hash(hash) = expiring() else { unreachable!() };
        let mut valkey = for_valkey(&hash);
        valkey.truncate(valkey.len() - 10);
        let mut other = PayloadWriter::new(valkey[0]);
        other.raw(&valkey[1..]);
        assert_eq!(Collection::of_payload(&other.finish(11)), None);
        let mut early = PayloadWriter::new(HASH_METADATA);
        early.raw(&(-5_i64).to_le_bytes());
        [1, 1].into_iter().for_each(|length| early.length(length));
        ["f", "v"].into_iter().for_each(|text| early.text(text.as_bytes()));
        assert_eq!(Collection::of_payload(&early.finish(REDIS_VERSION)), None);
    }
}
