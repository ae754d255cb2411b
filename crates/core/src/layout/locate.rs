//! From a logical key to its place, and back.
//!
//! [`Layout::locate`] runs for every key of every command, and allocates nothing where the names fit
//! their inline buffers. The way back trusts nothing: it decodes, and then asks `locate` whether the key
//! really lies there, so that bytes which keyfold never wrote are no key.

use crate::placement::name::{self, ADMINISTRATION_PREFIX, DATA_PREFIX, Mark, Name};
use crate::placement::{Field, Placement};
use crate::template::{Part, Parts};

use super::{Layout, NamespaceId, NamespaceIndex};

/// What the keys begin with that clients may not use.
pub(super) const RESERVED_PREFIXES: [&[u8]; 2] = [&[DATA_PREFIX], ADMINISTRATION_PREFIX];

/// Where one logical key lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace it belongs to.
    pub namespace: NamespaceIndex,
    /// A field of a bucket, or a key of its own.
    pub kind: PlaceKind,
    /// The physical key.
    pub physical: Name,
    /// The field; empty where zipped, and possibly where not.
    pub field: Field,
}

/// What kind of place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A field of a bucket.
    Bucket,
    /// A key of its own, with a zipped name.
    Zipped,
}

/// What becomes of a logical key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// It stays as it is.
    Plain,
    /// Clients may not use it.
    Reserved,
    /// It lives elsewhere.
    Placed(Place),
}

/// What a key that the server holds is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Physical<'p> {
    /// A logical key, as it is.
    Plain,
    /// A key of keyfold's own administration.
    Administration,
    /// A bucket.
    Bucket(NamespaceIndex),
    /// A zipped key.
    Zipped {
        /// Its namespace.
        namespace: NamespaceIndex,
        /// The logical key.
        key: Vec<u8>,
    },
    /// A spilled value.
    Spill {
        /// Its namespace.
        namespace: NamespaceIndex,
        /// What tells it from other values of the key.
        nonce: u64,
        /// The logical key.
        key: &'p [u8],
    },
    /// Reserved, but nothing that this layout writes.
    Unknown,
}

impl Layout {
    /// Where `key` lives.
    pub fn locate(&self, key: &[u8]) -> Located {
        if is_reserved(key) {
            return Located::Reserved;
        }
        for &index in &self.order {
            let template = &self.namespaces[index.0].template;
            if template.begins(key) {
                let mut parts = Parts::new();
                if template.parse_key(key, &mut parts) {
                    return self.place(index, &parts);
                }
            }
        }
        Located::Plain
    }

    fn place(&self, index: NamespaceIndex, parts: &[Part<'_>]) -> Located {
        let namespace = &self.namespaces[index.0];
        let kind = match namespace.placement {
            Placement::Plain => return Located::Plain,
            Placement::Zipped => PlaceKind::Zipped,
            Placement::Span(_) | Placement::Count(_) | Placement::By(_) => PlaceKind::Bucket,
        };
        // Written where it is returned: a place is some 150 bytes, and moving it costs as much as finding it.
        let mut located = Located::Placed(Place { namespace: index, kind, physical: Name::new(), field: Field::new() });
        if let Located::Placed(Place { physical, field, .. }) = &mut located
            && namespace.placement.locate(namespace.id.0, parts, physical, field)
            && field.len() <= namespace.field_limit
        {
            return located;
        }
        Located::Plain
    }

    /// What the server's key `physical` is.
    pub fn read_physical<'p>(&self, physical: &'p [u8]) -> Physical<'p> {
        if physical.starts_with(ADMINISTRATION_PREFIX) {
            Physical::Administration
        } else if physical.first() == Some(&DATA_PREFIX) {
            self.read_name(physical).unwrap_or(Physical::Unknown)
        } else {
            Physical::Plain
        }
    }

    fn read_name<'p>(&self, physical: &'p [u8]) -> Option<Physical<'p>> {
        let (id, mark, rest) = name::decode_head(physical)?;
        let index = self.find(NamespaceId(id))?;
        let namespace = &self.namespaces[index.0];
        match mark {
            Mark::Bucket | Mark::WholeBucket => {
                namespace.placement.names_bucket(&namespace.template, mark, rest).then_some(Physical::Bucket(index))
            }
            Mark::Zipped => self.key_of(index, physical, b"").map(|key| Physical::Zipped { namespace: index, key }),
            Mark::Spill => {
                name::decode_spill(rest).map(|(nonce, key)| Physical::Spill { namespace: index, nonce, key })
            }
        }
    }

    /// The logical key at `field` of the bucket `physical`, or of the zipped name where `field` is empty;
    /// none where no key of this namespace lies there.
    pub fn key_of(&self, namespace: NamespaceIndex, physical: &[u8], field: &[u8]) -> Option<Vec<u8>> {
        let rules = self.namespaces.get(namespace.0)?;
        let (_, mark, bucket) = name::decode_head(physical)?;
        let parts = rules.placement.decode(&rules.template, mark, bucket, field)?;
        let key = rules.template.render(&parts);
        match self.locate(&key) {
            Located::Placed(place)
                if place.namespace == namespace
                    && place.physical.as_slice() == physical
                    && place.field.as_slice() == field =>
            {
                Some(key)
            }
            _ => None,
        }
    }

    /// The name of the key that holds the value of `key` spilled under `nonce`.
    pub fn spill_name(&self, namespace: NamespaceIndex, nonce: u64, key: &[u8]) -> Vec<u8> {
        let mut name = Name::new();
        name::encode_head(self.namespaces[namespace.0].id.0, Mark::Spill, &mut name);
        name::encode_base62(nonce, &mut name);
        name.push(b':');
        name.extend_from_slice(key);
        name.into_vec()
    }
}

fn is_reserved(key: &[u8]) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}
