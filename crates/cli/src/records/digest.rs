//! Fingerprints of keys and contents: XXH3, 128 bits. They tell apart what differs by chance or by mistake; they
//! are no proof against someone who makes two contents alike on purpose.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::{Content, Other, Packed, Record};

/// A key in its database.
pub(crate) fn key(database: u32, key: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&database.to_le_bytes());
    hash.update(key);
    hash.digest128()
}

/// What a record holds, its expiry apart.
pub(crate) fn content(content: &Content) -> u128 {
    match content {
        Content::String(value) => of_parts(&[b"string", value]),
        Content::Other(other) | Content::Packed(Packed { other, .. }) => of_other(other),
    }
}

fn of_other(other: &Other) -> u128 {
    match other.digest {
        Some(digest) => of_elements(&other.kind, digest),
        None => of_parts(&[other.kind.as_bytes(), &other.dump]),
    }
}

/// What a key of this type holds, by a digest of its elements.
pub(crate) fn of_elements(kind: &str, elements: u128) -> u128 {
    of_parts(&[kind.as_bytes(), &elements.to_le_bytes()])
}

/// All of a record that holds `content`, with this expiry.
pub(crate) fn record(record: &Record, content: u128, expires_at_ms: Option<i64>) -> u128 {
    let at = expires_at_ms.map_or([0; 8], i64::to_le_bytes);
    let expires = [u8::from(expires_at_ms.is_some())];
    let parts = [key(record.database, &record.key).to_le_bytes(), content.to_le_bytes()];
    of_parts(&[&parts[0], &parts[1], &expires, &at])
}

/// Parts in their order, each with its length: no two lists of parts are the same bytes.
pub(crate) fn of_parts(parts: &[&[u8]]) -> u128 {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.digest128()
}

/// One physical name.
pub(crate) fn name(physical: &[u8]) -> u128 {
    xxh3_128(physical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_has_another_digest() {
        let string = |value: &[u8]| Content::String(value.to_vec());
        let one = |database, key: &[u8], value: &[u8]| Record {
            database,
            key: key.to_vec(),
            content: string(value),
            expires_at_ms: None,
        };
        let digest = |one: &Record, at| record(one, content(&one.content), at);
        let digests = [
            digest(&one(0, b"a", b"bc"), None),
            digest(&one(0, b"ab", b"c"), None),
            digest(&one(1, b"a", b"bc"), None),
            digest(&one(0, b"a", b"bc"), Some(0)),
            digest(&one(0, b"a", b"bc"), Some(1)),
        ];
        let unlike: std::collections::HashSet<_> = digests.iter().collect();
        assert_eq!(unlike.len(), digests.len());
        assert_ne!(of_parts(&[b"a", b""]), of_parts(&[b"", b"a"]));
    }
}
