//! A keyspace as logical records: read from a server wherever they lie, kept as lines, written through the core.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `walk` | from all that a server holds to records and findings |
//! | `inquiry` | what the walk asks the server, command by command |
//! | `place` | where a key may lie, and which key lies somewhere |
//! | `content` | lists, hashes and other types: how each is read whole |
//! | `finding` | what is not as it should be |
//! | `hashtable` | why a bucket is one |
//! | `jsonl` | one record as one line |
//! | `dump` | files of such lines, packed or not |
//! | `digest` | fingerprints of keys and contents |
//! | `fingerprints` | fingerprints with a number each, in bounded memory |
//! | `compare` | a server and a dump, in constant memory |
//! | `once` | keys that are being moved, each once |
//! | `logical` | drives the core's exchanges over a tool's connection |
pub(crate) mod compare;
pub(crate) mod content;
pub(crate) mod digest;
pub(crate) mod dump;
pub(crate) mod finding;
pub(crate) mod fingerprints;
pub(crate) mod hashtable;
pub(crate) mod in_parts;
pub(crate) mod inquiry;
pub(crate) mod jsonl;
pub(crate) mod logical;
pub(crate) mod once;
pub(crate) mod place;
pub(crate) mod walk;

/// A key of a database as people read it: `db 2 "user:7"`, and in database 0 without that.
pub(crate) fn key_name(database: u32, key: &[u8]) -> String {
    let key = format!("\"{}\"", key.escape_ascii());
    if database == 0 { key } else { format!("db {database} {key}") }
}

/// One logical key with all that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) database: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) content: Content,
    /// In milliseconds since 1970; none where it never expires.
    pub(crate) expires_at_ms: Option<i64>,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    String(Vec<u8>),
    Other(Other),
    Packed(Packed),
}

/// A folded set or hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// The value that it is in its bucket, before any codec.
    pub(crate) value: Vec<u8>,
    /// The same as a key of its own.
    pub(crate) other: Other,
}

/// A list, hash or another type, as DUMP gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    /// The type's name, as TYPE says it.
    pub(crate) kind: String,
    /// What RESTORE takes; empty where only the digest is wanted.
    pub(crate) dump: Vec<u8>,
    /// Of its elements, the same in every server and encoding; none for types whose elements aren't known.
    pub(crate) digest: Option<u128>,
}

impl Content {
    /// The type's name, as TYPE says it.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::String(_) => "string",
            Self::Other(other) | Self::Packed(Packed { other, .. }) => &other.kind,
        }
    }
}
