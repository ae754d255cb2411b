//! Lists, hashes and the other types: how each is read whole, and a digest of its elements.
//!
//! DUMP's bytes differ between servers' versions and encodings, and with the order of a hash table; the elements
//! don't. What isn't an element stays outside that digest: expiries of a hash's fields, a stream's groups. [`living`] has them too.

use keyfold_core::collection::{Collection, CollectionKind, Field};
use keyfold_core::resp::Reply;
use keyfold_rdb::{expiring_hash, stream_groups};

use super::digest::{self, of_parts};
use super::{Content, Other, Packed};

/// The command that reads all elements of a key of this type; none for types whose elements aren't known.
pub(crate) fn read_command<'a>(kind: &str, name: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    Some(match kind {
        "hash" => vec![b"HGETALL", name],
        "list" => vec![b"LRANGE", name, b"0", b"-1"],
        "set" => vec![b"SMEMBERS", name],
        "zset" => vec![b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"],
        "stream" => vec![b"XRANGE", name, b"-", b"+"],
        _ => return None,
    })
}

/// The digest of the elements that [`read_command`] brought: by their order only where the type has one.
pub(crate) fn digest(kind: &str, elements: Reply<'_>) -> Option<u128> {
    let Reply::Array(mut elements) = elements else { return None };
    if let Some(kind) = CollectionKind::of_name(kind.as_bytes()) {
        return Some(digests(kind, elements)?.into_iter().fold(0, u128::wrapping_add));
    }
    let bytes: Option<Vec<&[u8]>> = elements.map(bulk).collect();
    match kind {
        "list" => Some(of_parts(&bytes?)),
        "zset" => bytes?.chunks_exact(2).try_fold(0_u128, |sum, pair| {
            // As a number: servers write the same score in different digits.
            let score: f64 = std::str::from_utf8(pair[1]).ok()?.parse().ok()?;
            Some(sum.wrapping_add(of_parts(&[pair[0], &score.to_bits().to_le_bytes()])))
        }),
        "stream" => {
            let mut parts: Vec<&[u8]> = Vec::new();
            elements.try_for_each(|entry| {
                let Reply::Array(mut entry) = entry else { return None };
                let (id, Reply::Array(pairs)) = (entry.next()?, entry.next()?) else { return None };
                // An empty part ends each entry: fields of one never pass for another's id.
                parts.push(bulk(id)?);
                parts.extend(pairs.map(bulk).collect::<Option<Vec<_>>>()?);
                parts.push(b"");
                Some(())
            })?;
            Some(of_parts(&parts))
        }
        _ => None,
    }
}

/// The digest of each member, or of each field with its value: those of all, added up, are the digest of the whole.
pub(crate) fn digests<'r>(kind: CollectionKind, elements: impl Iterator<Item = Reply<'r>>) -> Option<Vec<u128>> {
    let bytes: Vec<&[u8]> = elements.map(bulk).collect::<Option<_>>()?;
    let texts = match kind {
        CollectionKind::Set => 1,
        CollectionKind::Hash => 2,
    };
    Some(bytes.chunks_exact(texts).map(of_parts).collect())
}

/// The value that a set or hash with these elements is in a bucket; none for other types.
pub(crate) fn packed(kind: &str, elements: Reply<'_>) -> Option<Vec<u8>> {
    let kind = CollectionKind::of_name(kind.as_bytes())?;
    let Reply::Array(elements) = elements else { return None };
    let texts = elements.map(|element| bulk(element).map(<[u8]>::to_vec)).collect::<Option<_>>()?;
    Some(Collection::of_texts(kind, texts).packed())
}

/// The digest of a folded set or hash, the same as of one of its own.
pub(crate) fn digest_of(collection: &Collection) -> u128 {
    let all = |parts: &mut dyn Iterator<Item = u128>| parts.fold(0, u128::wrapping_add);
    match collection {
        Collection::Set(set) => all(&mut set.iter().map(|member| of_parts(&[member]))),
        Collection::Hash(hash) => all(&mut hash.iter().map(|(name, field)| of_parts(&[name, &field.value]))),
    }
}

/// The digest of the elements that live at this time, by what RESTORE takes; none where that says of no element when it expires.
pub(crate) fn digest_by_expiries(payload: &[u8], now_ms: i64) -> Option<u128> {
    let mut hash = expiring_hash(payload)?;
    hash.remove_expired(now_ms);
    Some(digest_of(&Collection::Hash(hash)))
}

/// All that a key holds at some time, its own expiry apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Living {
    /// Of its elements and, where they are known, of expiries of fields and of a stream's groups.
    pub(crate) digest: u128,
    /// When a field expires next, in milliseconds since 1970.
    pub(crate) changes_at_ms: Option<i64>,
    /// When it goes with the last of its fields.
    pub(crate) passes_at_ms: Option<i64>,
}

/// What a key holds at this time; none where all fields of a hash have expired by then.
pub(crate) fn living(content: &Content, now_ms: i64) -> Option<Living> {
    let digest = digest::content(content);
    let (Content::Other(Other { kind, dump, .. }) | Content::Packed(Packed { other: Other { kind, dump, .. }, .. })) =
        content
    else {
        return Some(Living { digest, changes_at_ms: None, passes_at_ms: None });
    };
    if let Some(mut hash) = expiring_hash(dump) {
        hash.remove_expired(now_ms);
        let (changes_at_ms, passes_at_ms) = (hash.expiries().min(), hash.passes_at_ms());
        if hash.is_empty() {
            return None;
        }
        let of_field = |name: &[u8], field: &Field| match field.expires_at_ms {
            None => of_parts(&[name, &field.value]),
            Some(at_ms) => of_parts(&[name, &field.value, &at_ms.to_le_bytes()]),
        };
        let fields = hash.iter().fold(0_u128, |sum, (name, field)| sum.wrapping_add(of_field(name, field)));
        return Some(Living { digest: digest::of_elements(kind, fields), changes_at_ms, passes_at_ms });
    }
    let mut parts = digest.to_le_bytes().to_vec();
    let groups = stream_groups(dump, &mut |part| parts.extend(of_parts(part).to_le_bytes()));
    let digest = groups.map_or(digest, |()| of_parts(&[&parts]));
    Some(Living { digest, changes_at_ms: None, passes_at_ms: None })
}

fn bulk(reply: Reply<'_>) -> Option<&[u8]> {
    match reply {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::resp::write_command;

    use super::*;

    fn digest(kind: &str, elements: &[&str]) -> Option<u128> {
        let mut raw = Vec::new();
        // A request is an array of strings, too.
        write_command(&mut raw, &elements.iter().map(|element| element.as_bytes()).collect::<Vec<_>>());
        super::digest(kind, Reply::parse(&raw).unwrap())
    }

    #[test]
    fn order_counts_where_the_type_has_one() {
        let [one, other] = [["a", "b"], ["b", "a"]];
        assert_eq!(digest("set", &one), digest("set", &other));
        assert_ne!(digest("list", &one), digest("list", &other));
        assert_ne!(digest("hash", &one), digest("hash", &other));
        assert_eq!(digest("hash", &["a", "1", "b", "2"]), digest("hash", &["b", "2", "a", "1"]));
        assert_eq!(digest("json", &one), None);
    }

    #[test]
    fn scores_are_numbers() {
        let [old, new] = [["m", "0.10000000000000001"], ["m", "0.1"]];
        assert_eq!(digest("zset", &old), digest("zset", &new));
        assert_ne!(digest("zset", &old), digest("zset", &["m", "0.2"]));
    }
}
