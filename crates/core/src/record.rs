//! How a record lies in a server: what is written for a key, a value and an expiry in a place, and what reads it back.
//!
//! ```text
//! no place        a string under the key itself; the server keeps its expiry
//! zipped, framed  a string under the place's name; a frame where the place is framed; the server keeps its expiry
//! bucket          a field of the hash; the frame before the value keeps its expiry
//!                 ├── value within the namespace's limit: raw, framed or coded
//!                 ├── longer: a pointer, and a string under the spill's name, which has no expiry of its own
//!                 └── a collection of many members: a header, and parts under names of their own (crate::collection::parts)
//! ```
//!
//! Nothing else knows this: commands, tools, the memory model and whatever loads a server all write what
//! [`Layout::physical_writes`] says, each to its own kind of wire.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use crate::codec::{Effort, Stored};
use crate::collection::parts::{Form, Header, InParts, Limits, Part, in_parts};
use crate::collection::{Collection, CollectionKind, Field};
use crate::dialect::Dialect;
use crate::frame;
use crate::layout::{Layout, Place, spill_name};
use crate::placement::name::{Mark, Name, Origin, PartName, encode_head};

/// Whose parts are that are nobody's any more. What this key holds never lies in parts.
pub(crate) const NOBODY: &[u8] = b"";

/// A collection of so few members is kept as one value, however long these are.
pub const FEWEST_IN_PARTS: usize = 32;

/// One string, one field of a bucket, or one part of a collection that a server is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalWrite<'r> {
    /// The server's key.
    pub key: Cow<'r, [u8]>,
    /// What it holds, or has besides.
    pub content: Content<'r>,
}

/// What a physical key is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'r> {
    /// A string.
    String {
        /// Its bytes.
        value: Cow<'r, [u8]>,
        /// When the server removes it, in milliseconds since 1970.
        expires_at_ms: Option<i64>,
    },
    /// One more field of a bucket; its frame says when it expires.
    Field {
        /// Its name.
        name: &'r [u8],
        /// What is stored there.
        stored: Vec<u8>,
    },
    /// A part of a collection.
    Members(Collection),
}

impl<'r> PhysicalWrite<'r> {
    fn string(key: impl Into<Cow<'r, [u8]>>, value: impl Into<Cow<'r, [u8]>>, expires_at_ms: Option<i64>) -> Self {
        Self { key: key.into(), content: Content::String { value: value.into(), expires_at_ms } }
    }

    /// Gives `send` the command that carries it out: HSET, SADD, or SET with PXAT (since Redis 6.2), where it expires.
    pub fn command<T>(&self, send: impl FnOnce(&[&[u8]]) -> T) -> T {
        let key = &*self.key;
        match &self.content {
            Content::Field { name, stored } => send(&[b"HSET", key, name, stored]),
            Content::String { value, expires_at_ms: None } => send(&[b"SET", key, value]),
            Content::String { value, expires_at_ms: Some(at) } => {
                send(&[b"SET", key, value, b"PXAT", at.to_string().as_bytes()])
            }
            Content::Members(Collection::Set(set)) => {
                send(&[b"SADD", key].into_iter().chain(set.iter()).collect::<Vec<_>>())
            }
            Content::Members(Collection::Hash(hash)) => {
                let texts = hash.iter().flat_map(|(name, field)| [name, field.value.as_slice()]);
                send(&[b"HSET", key].into_iter().chain(texts).collect::<Vec<_>>())
            }
        }
    }

    /// The bytes of the string or of the field; none for members.
    pub fn value(&self) -> &[u8] {
        match &self.content {
            Content::String { value, .. } => value,
            Content::Field { stored, .. } => stored,
            Content::Members(_) => &[],
        }
    }

    /// How many bytes of values it has.
    pub(crate) fn value_len(&self) -> usize {
        match &self.content {
            Content::String { value, .. } => value.len(),
            Content::Field { stored, .. } => stored.len(),
            Content::Members(Collection::Set(set)) => set.iter().map(<[u8]>::len).sum(),
            Content::Members(Collection::Hash(hash)) => {
                hash.iter().map(|(name, field)| name.len() + field.value.len()).sum()
            }
        }
    }
}

/// All that a server is to hold of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalWrites<'r> {
    /// The spilled value, or the parts, which are there before or together with what points to them.
    pub beside: Vec<PhysicalWrite<'r>>,
    /// What lies in the key's place.
    pub main: PhysicalWrite<'r>,
}

impl<'r> PhysicalWrites<'r> {
    /// All, in the order in which they are to be written.
    pub fn iter(&self) -> impl Iterator<Item = &PhysicalWrite<'r>> {
        self.beside.iter().chain([&self.main])
    }

    /// Whether anything lies beside the key's place.
    pub fn is_spilled(&self) -> bool {
        !self.beside.is_empty()
    }

    /// Whether it is a collection that lies in parts.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.beside.iter().any(|write| matches!(write.content, Content::Members(_)))
    }

    /// How many bytes the value takes as it is stored, without names and pointers.
    pub(crate) fn value_len(&self) -> usize {
        let of_members = self.beside.iter().filter(|write| matches!(write.content, Content::Members(_)));
        match self.beside.first() {
            _ if self.is_in_parts() => of_members.map(PhysicalWrite::value_len).sum(),
            spilled => spilled.unwrap_or(&self.main).value_len(),
        }
    }
}

impl Layout {
    /// What a server is to hold for `key` in its place, which [`Self::locate`] gave: none for a key of its own under its
    /// own name. `nonce` is drawn where the value is spilled; one is never used again.
    ///
    /// Values are encoded by the codec that their namespace writes by, which must be open; sets as the server packs them.
    pub fn physical_writes<'r>(
        &self,
        sets: SetsAs,
        place: Option<&'r Place>,
        key: &'r [u8],
        value: &'r [u8],
        expires_at_ms: Option<i64>,
        nonce: impl FnOnce() -> u64,
    ) -> PhysicalWrites<'r> {
        self.physical_writes_by(
            Manner { effort: Effort::Full, sets, before: None },
            place,
            key,
            value,
            expires_at_ms,
            nonce,
        )
    }

    /// The same in this manner.
    pub(crate) fn physical_writes_by<'r>(
        &self,
        manner: Manner<'_>,
        place: Option<&'r Place>,
        key: &'r [u8],
        value: &'r [u8],
        expires_at_ms: Option<i64>,
        nonce: impl FnOnce() -> u64,
    ) -> PhysicalWrites<'r> {
        let Manner { effort, sets, before } = manner;
        let own = |name, value: Cow<'r, [u8]>| PhysicalWrites {
            beside: Vec::new(),
            main: PhysicalWrite::string(name, value, expires_at_ms),
        };
        let Some(place) = place else { return own(key, Cow::Borrowed(value)) };
        debug_assert!(place.kind.packing().is_none(), "the hashes of others are read and cleared, never written");
        let namespace = self.namespace(place.namespace);
        if place.kind.is_raw() {
            return own(&*place.physical, Cow::Borrowed(value));
        }
        if place.kind.is_framed() {
            return own(&*place.physical, Cow::Owned(namespace.encode_own_by(effort, key, value)));
        }
        let field = |stored| PhysicalWrite {
            key: Cow::Borrowed(&place.physical),
            content: Content::Field { name: &place.field, stored },
        };
        match namespace.encode_by(effort, key, value, expires_at_ms) {
            Stored::InPlace(stored) => PhysicalWrites { beside: Vec::new(), main: field(stored) },
            Stored::Spilled { content, slot } => {
                let (nonce, mut pointer) = (nonce(), Vec::with_capacity(48));
                let in_parts = (key != NOBODY)
                    .then(|| {
                        large_of(place, value, expires_at_ms, nonce, |kind| {
                            let form = sets.form_of(kind);
                            before.map_or_else(|| Header::new(form, nonce), |before| before.anew(form))
                        })
                    })
                    .flatten();
                let beside = match in_parts {
                    Some((header, expires_at_ms, mut parts)) => {
                        frame::encode_parts(nonce, &header.encode(), expires_at_ms, &mut pointer);
                        parts.push(PhysicalWrite::string(part_name(place.origin, nonce, PartName::Owner), key, None));
                        parts
                    }
                    None => {
                        frame::encode_spill(nonce, slot, expires_at_ms, &mut pointer);
                        vec![PhysicalWrite::string(spill_name(place.origin, nonce, key), content, None)]
                    }
                };
                PhysicalWrites { beside, main: field(pointer) }
            }
        }
    }
}

/// The parts of what is stored so for a key in this place, with their header and when the key expires; none where it is better kept as
/// one value.
fn large_of<'r>(
    place: &Place,
    stored: &[u8],
    expires_at_ms: Option<i64>,
    nonce: u64,
    empty: impl FnOnce(CollectionKind) -> Header,
) -> Option<(Header, Option<i64>, Vec<PhysicalWrite<'r>>)> {
    place.kind.collection()?;
    let (collection, expires_at_ms) = Collection::read_stored(stored, expires_at_ms).ok()?;
    if collection.len() <= FEWEST_IN_PARTS {
        return None;
    }
    let (header, writes) = parts_of(place.origin, &collection, nonce, empty(collection.kind()))?;
    Some((header, expires_at_ms, writes))
}

/// The parts of a collection beside a bucket of this origin, their directories, and the header, which began as that of nothing; none where a
/// field of it expires.
pub(crate) fn parts_of<'r>(
    origin: Origin,
    collection: &Collection,
    nonce: u64,
    empty: Header,
) -> Option<(Header, Vec<PhysicalWrite<'r>>)> {
    let InParts { header, directories, parts } = in_parts(collection, empty, Limits::DEFAULT)?;
    let form = header.form;
    let name = |name| part_name(origin, nonce, name);
    let part_writes = parts.into_iter().map(|Part { class, number, members }| PhysicalWrite {
        key: name(PartName::Part(class, number)).into(),
        content: Content::Members(match form.is_in_sets(class) {
            true => Collection::Set(members.into_iter().map(|(member, _)| member.to_vec()).collect()),
            false => {
                let field =
                    |value: Option<&[u8]>| Field { value: value.unwrap_or_default().to_vec(), expires_at_ms: None };
                Collection::Hash(members.into_iter().map(|(text, value)| (text.to_vec(), field(value))).collect())
            }
        }),
    });
    let directory_writes = directories.into_iter().map(|(class, directory)| {
        PhysicalWrite::string(name(PartName::Directory(class)), directory.bytes().to_vec(), None)
    });
    Some((header, part_writes.chain(directory_writes).collect()))
}

/// The name of what belongs to a collection that lies in the parts with this nonce, beside a bucket of this origin.
pub fn part_name(origin: Origin, nonce: u64, name: PartName) -> Vec<u8> {
    let mut out = part_head(origin);
    name.encode(nonce, &mut out);
    out.into_vec()
}

/// What the names of all parts beside a bucket of this origin begin with.
pub(crate) fn part_head(origin: Origin) -> Name {
    let mut head = Name::new();
    encode_head(origin, Mark::Part, &mut head);
    head
}

/// By what a value is written, and in place of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'m> {
    /// What its codec may spend.
    pub(crate) effort: Effort<'m>,
    /// How sets are kept.
    pub(crate) sets: SetsAs,
    /// The header of a collection in parts in whose place it comes.
    pub(crate) before: Option<Header>,
}

/// How the server packs small sets of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetsAs {
    /// As sets.
    Sets,
    /// Only as hashes, whose values are empty.
    Hashes,
}

impl SetsAs {
    /// By this dialect's server.
    pub fn of(dialect: Dialect<'_>) -> Self {
        if dialect.has_listpack_sets() { Self::Sets } else { Self::Hashes }
    }

    /// How members of a collection of this type are kept.
    pub(crate) fn form_of(self, kind: CollectionKind) -> Form {
        match kind {
            CollectionKind::Set => self.form(),
            CollectionKind::Hash => Form::Fields,
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Sets => Form::Sets,
            Self::Hashes => Form::Hashes,
        }
    }
}

/// The command that reads what lies in a key's place: GET, or HGET.
pub fn physical_read<'r>(place: Option<&'r Place>, key: &'r [u8]) -> SmallVec<[&'r [u8]; 3]> {
    match place {
        None => smallvec![&b"GET"[..], key],
        Some(place) if place.kind.is_field() => smallvec![&b"HGET"[..], &*place.physical, &*place.field],
        Some(place) => smallvec![&b"GET"[..], &*place.physical],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: &str = "
        [[namespace]]
        keys = 'n:{id:int}'
        bucket = { span = 10 }
        value_limit = 8
        [[namespace]]
        keys = 'z:{id:int}'
        [[namespace]]
        keys = 'f:{id:int}'
        placement = 'framed'
        codec = 'hex'
    ";

    /// The commands for a record, a line each.
    fn written(key: &str, value: &str, expires_at_ms: Option<i64>) -> Vec<String> {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let place = layout.locate(key.as_bytes()).place();
        let writes = layout.physical_writes(
            SetsAs::Sets,
            place.as_ref(),
            key.as_bytes(),
            value.as_bytes(),
            expires_at_ms,
            || u64::MAX,
        );
        let line = |args: &[&[u8]]| args.join(&b' ').escape_ascii().to_string();
        let read = physical_read(place.as_ref(), key.as_bytes());
        writes.main.command(|args| assert_eq!(args[1..read.len()], read[1..], "it is read where it is written"));
        writes.iter().map(|write| write.command(line)).collect()
    }

    #[test]
    fn a_record_is_written_as_its_place_says() {
        let head = |key: &str| {
            let layout = Layout::parse_file(LAYOUT).unwrap();
            layout.locate(key.as_bytes()).place().unwrap().physical.escape_ascii().to_string()
        };
        assert_eq!(written("other", "v", None), ["SET other v"]);
        assert_eq!(written("other", "v", Some(5)), ["SET other v PXAT 5"]);
        assert_eq!(written("z:7", "v", Some(5)), [format!("SET {} v PXAT 5", head("z:7"))]);
        assert_eq!(written("f:7", "v", None), [format!("SET {} v", head("f:7"))]);
        let bucket = head("n:17");
        assert_eq!(written("n:17", "short", None), [format!("HSET {bucket} 7 short")]);
        assert_eq!(written("n:17", "-3", Some(1_577_836_800_001)).len(), 1);
        let [spill, pointer] = &written("n:17", "longer than that", None)[..] else { panic!("it is spilled") };
        assert!(spill.starts_with("SET ~") && spill.ends_with(":n:17 longer than that"), "{spill}");
        assert!(pointer.starts_with(&format!("HSET {bucket} 7 ")) && !pointer.contains("longer"), "{pointer}");
    }

    #[test]
    fn a_nonce_is_drawn_for_what_is_spilled_alone() {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let place = layout.locate(b"n:17").place();
        let writes = layout
            .physical_writes(SetsAs::Sets, place.as_ref(), b"n:17", b"short", None, || panic!("nothing is spilled"));
        assert_eq!((writes.iter().count(), writes.is_spilled()), (1, false));
    }
}
