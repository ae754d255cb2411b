//! Sets and hashes as a client means them: members, fields with their values, when a field expires.
//!
//! A namespace of sets or hashes keeps each of its small collections as *one* stored value beside others in a bucket
//! ([`packed`] draws its bytes). Whoever works on one has it taken apart, as it is here.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`packed`] | a collection as one value, and back |
//! | `packed_view` | such a value, looked at where it lies |
//! | [`parts`] | a large one as many small ones |
//! | `payload` | a collection as DUMP gives it, and RESTORE takes it |
//! | `set` | a set |
//! | `hash` | a hash |
//! | `vocabulary` | a packed hash without what the hashes of a namespace have in common |

mod hash;
pub mod packed;
mod packed_view;
pub mod parts;
mod payload;
mod set;
pub(crate) mod vocabulary;

pub use hash::{Field, Hash};
pub(crate) use packed_view::PackedView;
pub use payload::FieldExpiryForm;
pub use set::Set;
pub use vocabulary::{MOST_NAMES, MOST_VALUES, Vocabulary};
pub(crate) use vocabulary::{packed_fields, unlisted_len};

/// A server answers nobody else while it gives so many members of a set or hash of its own, or takes them in parts, some tenths of a
/// second: one that has more is for the server's own commands alone.
pub const MOST_MEMBERS: u64 = 1 << 18;

crate::named! {
    /// Which type a collection is of, by the name TYPE gives.
    pub enum CollectionKind {
        /// Members, each once.
        Set = "set",
        /// Fields, each with a value.
        Hash = "hash",
    }
}

impl CollectionKind {
    /// That of this name, as TYPE and layouts have it; none for what is no collection.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// How many texts a member is: a field has a value beside its name.
    pub(crate) fn texts_each(self) -> usize {
        match self {
            Self::Set => 1,
            Self::Hash => 2,
        }
    }
}

/// A set or a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collection {
    /// A set.
    Set(Set),
    /// A hash.
    Hash(Hash),
}

/// The expiry of a field that a server still shows, and says of its time that there is no such field: Redis does that in the millisecond in
/// which it expires.
pub(crate) const EXPIRES_NOW_MS: i64 = 1;

/// When a field expires, by what HPEXPIRETIME says of one that was shown.
pub(crate) fn field_expiry(said: i64) -> Option<i64> {
    match said {
        -2 => Some(EXPIRES_NOW_MS),
        at_ms => (at_ms >= 0).then_some(at_ms),
    }
}

impl Collection {
    /// An empty one, which no key holds: a server removes a key with its last member.
    pub fn new(kind: CollectionKind) -> Self {
        match kind {
            CollectionKind::Set => Self::Set(Set::default()),
            CollectionKind::Hash => Self::Hash(Hash::default()),
        }
    }

    /// One of these members, or of fields and values that follow one another; no field expires.
    pub fn of_texts(kind: CollectionKind, texts: Vec<Vec<u8>>) -> Self {
        let mut texts = texts.into_iter();
        match kind {
            CollectionKind::Set => Self::Set(texts.collect()),
            CollectionKind::Hash => {
                let next = || Some((texts.next()?, Field { value: texts.next()?, expires_at_ms: None }));
                Self::Hash(std::iter::from_fn(next).collect())
            }
        }
    }

    /// What is left of it at this time, in milliseconds since 1970: fields that have expired are gone, and a hash with the last of
    /// them.
    pub fn living(self, now_ms: i64) -> Option<Self> {
        match self {
            Self::Set(_) => Some(self),
            Self::Hash(mut hash) => {
                hash.remove_expired(now_ms);
                (!hash.is_empty()).then_some(Self::Hash(hash))
            }
        }
    }

    /// Which type it is of.
    pub fn kind(&self) -> CollectionKind {
        match self {
            Self::Set(_) => CollectionKind::Set,
            Self::Hash(_) => CollectionKind::Hash,
        }
    }

    /// How many members or fields it has, those included whose time is over.
    pub fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::Hash(hash) => hash.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
