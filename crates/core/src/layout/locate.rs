//! From a logical key to its place, and back.
//!
//! [`Layout::locate`] runs for every key of every command, and allocates nothing where the names fit
//! their inline buffers. The way back trusts nothing: it decodes, and then asks `locate` whether the key
//! really lies there, so that bytes which keyfold never wrote are no key.

use crate::base62;
use crate::placement::name::{self, ADMINISTRATION_PREFIX, DATA_PREFIX, Head, Mark, Name, Origin, PartName, Stem};
use crate::placement::{Field, PlaceKind, Placement};
use crate::template::{Part, Parts};

use super::{Layout, Namespace, NamespaceIndex};

/// Keys that begin with one of these are keyfold's own, and clients may not use them.
pub(crate) const RESERVED_PREFIXES: [&[u8]; 2] = [&[DATA_PREFIX], ADMINISTRATION_PREFIX];

/// Where one logical key lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace it belongs to.
    pub namespace: NamespaceIndex,
    /// What the names of all that is written for the key begin with, by the namespace's stem or its former one.
    pub origin: Origin,
    /// A field of a bucket, or a key of its own.
    pub kind: PlaceKind,
    /// The physical key.
    pub physical: Name,
    /// The field; empty where zipped, and possibly where not.
    pub field: Field,
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
    /// Its namespace is being moved: it lives in one of two places.
    Moving(Box<Moving>),
}

impl Located {
    /// The namespace that the key belongs to.
    pub fn namespace(&self) -> Option<NamespaceIndex> {
        match self {
            Self::Placed(place) => Some(place.namespace),
            Self::Moving(moving) => Some(moving.namespace),
            Self::Plain | Self::Reserved => None,
        }
    }
}

/// The two places of a key while its namespace is moved. It is in one of them, never in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The namespace it belongs to.
    pub namespace: NamespaceIndex,
    /// Where it is written; none for a key of its own under its own name.
    pub new: Option<Place>,
    /// Where it may still lie; none for a key of its own under its own name.
    pub old: Option<Place>,
}

/// What a key that the server holds is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Physical<'p> {
    /// A logical key, as it is.
    Plain,
    /// A key of keyfold's own administration.
    Administration,
    /// A bucket; one that an application made itself too, while keys are moved out of it.
    Bucket(NamespaceIndex),
    /// A key of its own with a zipped name.
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
    /// What belongs to a collection in parts.
    Part {
        /// Its namespace.
        namespace: NamespaceIndex,
        /// What tells it from other collections.
        nonce: u64,
        /// What of it it is.
        name: PartName,
    },
    /// Reserved, but nothing that this layout writes.
    Unknown,
}

impl Physical<'_> {
    /// The namespace that keeps something there, in a place of its own.
    pub fn namespace(&self) -> Option<NamespaceIndex> {
        match self {
            Self::Bucket(namespace)
            | Self::Zipped { namespace, .. }
            | Self::Spill { namespace, .. }
            | Self::Part { namespace, .. } => Some(*namespace),
            Self::Plain | Self::Administration | Self::Unknown => None,
        }
    }
}

impl Layout {
    /// Where `key` lives.
    pub fn locate(&self, key: &[u8]) -> Located {
        if is_reserved(key) {
            return Located::Reserved;
        }
        if let Some((index, parts)) = self.matching(key) {
            return self.place(index, key, &parts);
        }
        if self.handmade_hash(key).is_some() { Located::Reserved } else { Located::Plain }
    }

    /// The namespace whose keys are such, whether this one is folded or lies under its own name.
    pub fn namespace_of(&self, key: &[u8]) -> Option<NamespaceIndex> {
        if is_reserved(key) { None } else { self.matching(key).map(|(index, _)| index) }
    }

    #[inline]
    fn matching<'k>(&self, key: &'k [u8]) -> Option<(NamespaceIndex, Parts<'k>)> {
        for &(index, number) in &self.order {
            let templates = &self.namespaces[index.0].keys;
            if templates[number].begins(key) {
                let mut parts = Parts::new();
                if templates.parse_key(number, key, &mut parts) {
                    return Some((index, parts));
                }
            }
        }
        None
    }

    fn place(&self, index: NamespaceIndex, key: &[u8], parts: &[Part<'_>]) -> Located {
        let Namespace { stem, placement, field_limit, former, .. } = &self.namespaces[index.0];
        let located = place_by(index, *stem, placement, *field_limit, key, parts);
        let Some(former) = former else { return located };
        let old = place_by(index, former.stem, &former.placement, former.field_limit, key, parts);
        if located == old {
            return located;
        }
        Located::Moving(Box::new(Moving { namespace: index, new: located.place(), old: old.place() }))
    }

    /// What the server's key `physical` is.
    pub fn read_physical<'p>(&self, physical: &'p [u8]) -> Physical<'p> {
        if physical.starts_with(ADMINISTRATION_PREFIX) {
            Physical::Administration
        } else if physical.first() == Some(&DATA_PREFIX) {
            self.read_name(physical).unwrap_or(Physical::Unknown)
        } else {
            self.handmade_hash(physical).map_or(Physical::Plain, |(index, _)| Physical::Bucket(index))
        }
    }

    fn read_name<'p>(&self, physical: &'p [u8]) -> Option<Physical<'p>> {
        let Head { origin, mark, rest } = Head::decode(physical)?;
        let (index, placement) = self.find_rules(origin)?;
        let namespace = &self.namespaces[index.0];
        match mark {
            Mark::Bucket | Mark::WholeBucket => {
                placement.names_bucket(&namespace.keys, mark, rest).then_some(Physical::Bucket(index))
            }
            Mark::Zipped => self.key_of(index, physical, b"").map(|key| Physical::Zipped { namespace: index, key }),
            Mark::Part => PartName::decode(rest).map(|(nonce, name)| Physical::Part { namespace: index, nonce, name }),
            Mark::Spill => {
                name::decode_spill(rest).map(|(nonce, key)| Physical::Spill { namespace: index, nonce, key })
            }
        }
    }

    /// The logical key at `field` of the bucket `physical`, or of the zipped name where `field` is empty;
    /// none where no key of this namespace lies there.
    pub fn key_of(&self, namespace: NamespaceIndex, physical: &[u8], field: &[u8]) -> Option<Vec<u8>> {
        let templates = &self.namespaces.get(namespace.0)?.keys;
        let parts = if is_reserved(physical) {
            let Head { origin, mark, rest } = Head::decode(physical)?;
            let (_, placement) = self.find_rules(origin).filter(|(index, _)| *index == namespace)?;
            placement.decode(templates, mark, rest, field)?
        } else {
            self.namespaces[namespace.0].handmade()?.decode(templates.first(), physical, field)?
        };
        let key = templates.render(&parts)?;
        let lies_there = |place: &Place| {
            place.namespace == namespace && place.physical.as_slice() == physical && place.field.as_slice() == field
        };
        let found = match self.locate(&key) {
            Located::Placed(place) => lies_there(&place),
            Located::Moving(moving) => moving.new.iter().chain(&moving.old).any(lies_there),
            Located::Plain | Located::Reserved => false,
        };
        found.then_some(key)
    }

    /// The namespace whose names begin so, now or before it began to move, and the placement that they stand for.
    fn find_rules(&self, Origin { slot, stem }: Origin) -> Option<(NamespaceIndex, &Placement)> {
        self.iter().find_map(|(index, namespace)| {
            let (placement, _) = namespace.rules().find(|(placement, own)| *own == stem && placement.has_names())?;
            (placement.is_by_slot() == slot.is_some()).then_some((index, placement))
        })
    }

    /// What a physical name begins with, where it is one that layouts write.
    pub fn origin_of(physical: &[u8]) -> Option<Origin> {
        Head::decode(physical).map(|head| head.origin)
    }

    /// The place of `key` in the buckets beside which the spilled value `name` lies: the one that may point to it.
    pub fn place_beside(&self, name: &[u8], key: &[u8]) -> Option<Place> {
        let origin = Self::origin_of(name);
        self.places(key).find(|place| Some(place.origin) == origin && place.kind.is_bucket())
    }

    /// Every place that `key` may lie in, the one where it is written first; none for a plain key.
    pub fn places(&self, key: &[u8]) -> impl Iterator<Item = Place> + use<> {
        let (new, old) = match self.locate(key) {
            Located::Placed(place) => (Some(place), None),
            Located::Moving(moving) => (moving.new, moving.old),
            Located::Plain | Located::Reserved => (None, None),
        };
        new.into_iter().chain(old)
    }
}

/// The name of the key that holds the value of `key` spilled under `nonce`, beside a bucket of this origin.
pub fn spill_name(origin: Origin, nonce: u64, key: &[u8]) -> Vec<u8> {
    let mut name = spill_head(origin);
    base62::encode(nonce, &mut name);
    name.push(b':');
    name.extend_from_slice(key);
    name.into_vec()
}

/// What the names of values spilled beside a bucket of this origin begin with. The nonce follows in base62, a colon and the key.
pub(crate) fn spill_head(origin: Origin) -> Name {
    let mut head = Name::new();
    name::encode_head(origin, Mark::Spill, &mut head);
    head
}

/// Where one rule places the key with these parts.
fn place_by(
    namespace: NamespaceIndex,
    stem: Stem,
    placement: &Placement,
    field_limit: usize,
    key: &[u8],
    parts: &[Part<'_>],
) -> Located {
    let Some(kind) = placement.kind() else { return Located::Plain };
    // Written where it is returned: a place is some 150 bytes, and moving it costs as much as finding it.
    let origin = placement.origin(stem, key);
    let mut located = Located::Placed(Place { namespace, origin, kind, physical: Name::new(), field: Field::new() });
    if let Located::Placed(Place { physical, field, .. }) = &mut located
        && placement.locate(origin, parts, physical, field)
        && (field.len() <= field_limit || kind.packing().is_some())
    {
        return located;
    }
    Located::Plain
}

impl Located {
    /// Where the key is written; none for a key of its own under its own name.
    pub fn place(self) -> Option<Place> {
        match self {
            Self::Placed(place) => Some(place),
            Self::Moving(moving) => moving.new,
            Self::Plain | Self::Reserved => None,
        }
    }
}

pub(super) fn is_reserved(key: &[u8]) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}
