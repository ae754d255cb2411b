//! What is folded already: physical keys of keyfold's, counted as the logical keys that they hold.
//!
//! A walk meets buckets, zipped names and spilled values. By the server's own layout each belongs to a namespace, and is
//! spoken of as that: nobody who folded `user:{id:int}` asks what `~tnrO:0` is.

use std::collections::BTreeMap;

use keyfold_core::layout::{Layout, Namespace, NamespaceIndex, Physical};
use keyfold_core::placement::name::PartName;

use crate::observation::{Content, Encoding, Kind, Observation};

/// The physical keys of a server's layout, while a survey goes on.
#[derive(Debug)]
pub(crate) struct FoldedTally {
    layout: Layout,
    namespaces: BTreeMap<usize, Held>,
}

/// What one namespace has in places of its own.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Logical keys; in buckets those count that have expired and are not removed yet.
    pub keys: u64,
    /// The sum of their squares over physical keys.
    pub keys_squared: f64,
    /// What the physical keys take, without their share of the tables of keys.
    pub bytes: u64,
    /// The sum of their squares over physical keys.
    pub bytes_squared: f64,
    /// Physical keys: buckets, zipped names, spilled values.
    pub physical: u64,
    /// How many of those the server has an expiry of.
    pub expiring: u64,
    /// Buckets.
    pub buckets: u64,
    /// Buckets that are hashtables, over the server's limits.
    pub tables: u64,
    /// Values that are too long for their buckets.
    pub spills: u64,
    /// Logical keys that lie in parts, each of which has one name that says whose the parts are.
    pub in_parts: u64,
    /// What all of their names take, of the physical keys' bytes.
    pub in_parts_bytes: u64,
}

impl FoldedTally {
    /// By this layout.
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, namespaces: BTreeMap::new() }
    }

    /// Counts a physical key that takes so many bytes; whether it is one that the layout writes.
    pub(crate) fn take(&mut self, observation: &Observation, bytes: u64) -> bool {
        let physical = self.layout.read_physical(&observation.key);
        let Some((namespace, keys)) = keys_at(&physical, observation) else { return false };
        let is_bucket = matches!(physical, Physical::Bucket(_));
        let is_spill = matches!(physical, Physical::Spill { .. });
        let says_whose_parts = matches!(physical, Physical::Part { name: PartName::Owner, .. });
        let held = self.namespaces.entry(namespace.0).or_default();
        held.keys += keys;
        held.keys_squared += (keys as f64).powi(2);
        held.bytes += bytes;
        held.bytes_squared += (bytes as f64).powi(2);
        held.physical += 1;
        held.expiring += u64::from(observation.has_expiry);
        held.buckets += u64::from(is_bucket);
        held.tables += u64::from(is_bucket && observation.encoding == Encoding::Hashtable);
        held.spills += u64::from(is_spill);
        held.in_parts += u64::from(says_whose_parts);
        held.in_parts_bytes += if matches!(physical, Physical::Part { .. }) { bytes } else { 0 };
        true
    }

    /// The namespaces that have anything, and what they have.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Namespace, &Held)> {
        self.namespaces.iter().map(|(index, held)| (&self.layout.namespaces()[*index], held))
    }
}

/// The namespace that has something in a physical key, which was read from its name, and how many logical keys lie there; none of
/// what no layout writes.
pub fn keys_at(physical: &Physical<'_>, observation: &Observation) -> Option<(NamespaceIndex, u64)> {
    match (physical, observation.content) {
        (Physical::Bucket(_), _) if observation.kind != Kind::Hash => None,
        (Physical::Bucket(namespace), Content::Elements(fields)) => Some((*namespace, fields)),
        (Physical::Zipped { namespace, .. }, _) => Some((*namespace, 1)),
        (physical, _) => Some((physical.namespace()?, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: &[u8], fields: u64, encoding: Encoding) -> Observation {
        Observation {
            kind: Kind::Hash,
            encoding,
            content: Content::Elements(fields),
            ..Observation::of_string(key, b"")
        }
    }

    #[test]
    fn buckets_and_spills_are_their_namespaces_and_nothing_else_is() {
        let text = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";
        let layout = Layout::parse_file(text).unwrap();
        let bucket = layout.locate(b"user:5").place().unwrap().physical.as_slice().to_vec();
        let mut folded = FoldedTally::new(layout);
        assert!(folded.take(&hash(&bucket, 100, Encoding::Listpack), 1000));
        assert!(folded.take(&hash(&bucket, 600, Encoding::Hashtable), 9000));
        for other in [&b"user:5"[..], b"~nobody:1", b"keyfold:{home}:layout", b"other"] {
            assert!(!folded.take(&Observation::of_string(other, b"1"), 50), "{}", other.escape_ascii());
        }
        let (namespace, held) = folded.all().next().unwrap();
        assert_eq!(namespace.keys.source(), "user:{id:int}");
        assert_eq!((held.keys, held.bytes, held.buckets, held.tables, held.physical), (700, 10_000, 2, 1, 2));
    }
}
