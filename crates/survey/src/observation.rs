//! What a walk learns of one key.

use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::memory::ValueShape;
use keyfold_core::named;

/// One key, and what the server says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The key.
    pub key: Box<[u8]>,
    /// Its type.
    pub kind: Kind,
    /// How the server stores it.
    pub encoding: Encoding,
    /// How large it is.
    pub content: Content,
    /// What `MEMORY USAGE` says, where it was asked.
    pub usage_bytes: Option<u64>,
    /// Whether it expires.
    pub has_expiry: bool,
    /// A part of what it holds, of some keys.
    pub sample: Option<Sampled>,
    /// All that it holds, of a small set or hash: when fields expire is not said.
    pub members: Option<Collection>,
}

/// A set or hash that takes more is not read whole: no bucket would hold it.
pub const READ_WHOLE_BYTES: u64 = 4096;

impl Observation {
    /// A string of which no more is known than its key and value: for keys that come from no server.
    pub fn of_string(key: &[u8], value: &[u8]) -> Self {
        let shape = ValueShape::of(value);
        let encoding = match shape {
            ValueShape::Integer(_) => Encoding::Int,
            ValueShape::Bytes(..=44) => Encoding::Embstr,
            ValueShape::Bytes(_) => Encoding::Raw,
        };
        let content = Content::String(shape);
        let key = key.into();
        let (usage_bytes, sample, members) = (None, None, None);
        Self { key, kind: Kind::String, encoding, content, usage_bytes, has_expiry: false, sample, members }
    }
}

/// How large a key's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A string: an integer, or so many bytes.
    String(ValueShape),
    /// So many fields, members or entries.
    Elements(u64),
    /// The server didn't tell.
    Unknown,
}

/// A part of what a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// The first bytes of a string.
    Value(Box<[u8]>),
    /// Some fields of a hash, with their values.
    Fields(Vec<Field>),
    /// Some members of a set.
    Members(Vec<Box<[u8]>>),
}

impl Sampled {
    /// The first of these members or fields.
    pub fn of(collection: &Collection, most: usize) -> Self {
        match collection {
            Collection::Set(set) => Self::Members(set.iter().take(most).map(Box::from).collect()),
            Collection::Hash(hash) => {
                let field = |(name, field): (&[u8], &keyfold_core::collection::Field)| -> Field {
                    (name.into(), field.value.as_slice().into())
                };
                Self::Fields(hash.iter().take(most).map(field).collect())
            }
        }
    }
}

/// A field of a hash, and its value.
pub type Field = (Box<[u8]>, Box<[u8]>);

named! {
    /// A key's type.
    pub enum Kind {
        /// String.
        String = "string",
        /// Hash.
        Hash = "hash",
        /// Set.
        Set = "set",
        /// List.
        List = "list",
        /// Sorted set.
        SortedSet = "zset",
        /// Stream.
        Stream = "stream",
        /// A module's own, or the server didn't tell.
        Other = "other",
    }
}

named! {
    /// How a server stores a value.
    pub enum Encoding {
        /// A string that is an integer.
        Int = "int",
        /// A string of at most 44 bytes, beside its object.
        Embstr = "embstr",
        /// A longer string.
        Raw = "raw",
        /// A small hash, set, sorted set or list.
        Listpack = "listpack",
        /// The same before Redis 7.0.
        Ziplist = "ziplist",
        /// A large hash or set.
        Hashtable = "hashtable",
        /// A small set of integers.
        Intset = "intset",
        /// A list.
        Quicklist = "quicklist",
        /// A large sorted set.
        Skiplist = "skiplist",
        /// A stream.
        Stream = "stream",
        /// Another, or the server didn't tell.
        Other = "other",
    }
}

impl Kind {
    /// Which collections a layout can place such keys as.
    pub fn collection(self) -> Option<CollectionKind> {
        match self {
            Self::Set => Some(CollectionKind::Set),
            Self::Hash => Some(CollectionKind::Hash),
            _ => None,
        }
    }

    /// Reads what `TYPE` answers.
    pub fn parse(name: &[u8]) -> Self {
        let found = Self::ALL.iter().find(|kind| kind.name().as_bytes() == name);
        found.copied().unwrap_or(Self::Other)
    }
}

impl Encoding {
    /// Reads what `OBJECT ENCODING` answers.
    pub fn parse(name: &[u8]) -> Self {
        // A hash whose fields expire (Redis 7.4 and later) is a listpack that has their times as well.
        if name == b"listpackex" {
            return Self::Listpack;
        }
        let found = Self::ALL.iter().find(|encoding| encoding.name().as_bytes() == name);
        found.copied().unwrap_or(Self::Other)
    }

    /// The only type that is stored so, where there is but one.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Int | Self::Embstr | Self::Raw => Some(Kind::String),
            Self::Intset => Some(Kind::Set),
            Self::Quicklist => Some(Kind::List),
            Self::Skiplist => Some(Kind::SortedSet),
            Self::Stream => Some(Kind::Stream),
            Self::Listpack | Self::Ziplist | Self::Hashtable | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_words() {
        assert_eq!((Kind::parse(b"zset"), Kind::parse(b"ReJSON-RL")), (Kind::SortedSet, Kind::Other));
        assert_eq!((Encoding::parse(b"listpackex"), Encoding::parse(b"int")), (Encoding::Listpack, Encoding::Int));
        for encoding in Encoding::ALL {
            assert_eq!(Encoding::parse(encoding.name().as_bytes()), encoding);
        }
    }
}
