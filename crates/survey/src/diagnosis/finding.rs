//! What is found: what is wrong, where, what it costs, and what mends it.

use keyfold_core::named;

use super::mend::Mend;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It costs memory or puts data at risk.
    Problem,
    /// Worth knowing, and perhaps as it should be.
    Note,
}

named! {
    /// What is wrong, in a word that scripts may rely on.
    pub enum Trouble {
        /// Hashes over `hash-max-listpack-entries`.
        TooManyEntries = "too-many-entries",
        /// Hashes with a field over `hash-max-listpack-value`.
        LongField = "long-field",
        /// Hashes with a value over `hash-max-listpack-value`.
        LongValue = "long-value",
        /// Hashes that are tables because of the server's own field expiry.
        FieldExpiry = "field-expiry",
        /// Hashes that are tables, and needn't be any more.
        StillTable = "still-table",
        /// A limit that is below what the layout needs.
        LimitBelowLayout = "limit-below-layout",
        /// A limit that is lower at a replica than here, or than the layout needs.
        LowerLimitAtReplica = "lower-limit-at-replica",
        /// Nobody says what a limit is.
        LimitUnknown = "limit-unknown",
        /// A configuration file that says something else than the server.
        ConfigFileNotInEffect = "config-file-not-in-effect",
        /// No configuration file was loaded.
        NoConfigFile = "no-config-file",
        /// Buckets with few entries.
        SparseBuckets = "sparse-buckets",
        /// Buckets that are nearly full.
        FullBuckets = "full-buckets",
        /// Sets or hashes that an application seems to have split by hand.
        HandmadePartitions = "handmade-partitions",
        /// Expired values that no sweep removed.
        ExpiredNotSwept = "expired-not-swept",
        /// Spilled values that nothing points to.
        OrphanedSpills = "orphaned-spills",
        /// Stored values that don't read.
        DamagedValues = "damaged-values",
        /// Fields that are no key's place.
        StrayFields = "stray-fields",
        /// Names of keyfold's that no layout knows.
        UnknownNames = "unknown-names",
        /// Keys of a namespace that lie in two places, as a move of them has not come to its end.
        MoveOpen = "move-open",
        /// A layout that doesn't read.
        DamagedLayout = "damaged-layout",
        /// A codec that has learned nothing, so that values are stored as they are.
        UntrainedCodec = "untrained-codec",
        /// Codecs of values that can't be used, for want of a dictionary.
        UnusableCodec = "unusable-codec",
        /// A policy under which whole buckets are evicted.
        BucketsEvicted = "buckets-evicted",
        /// Memory that the allocator has and the data doesn't.
        Fragmentation = "fragmentation",
        /// Memory that the system took away.
        Swapped = "swapped",
    }
}

/// Whether buckets that are there already have to be written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// No.
    No,
    /// Yes, once the mend is in effect.
    After,
    /// Yes, and nothing else is needed.
    Now,
}

/// One of those concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The database.
    pub database: u32,
    /// The server's key.
    pub key: Vec<u8>,
    /// What it takes.
    pub bytes: u64,
    /// Its entries, where it is a hash.
    pub entries: Option<u64>,
    /// The field concerned.
    pub field: Option<Vec<u8>>,
    /// What is too long, `"field"` or `"value"`, and how long it is.
    pub long: Option<(&'static str, u64)>,
}

impl Example {
    /// A key and what it takes.
    pub fn new(database: u32, key: &[u8], bytes: u64) -> Self {
        Self { database, key: key.to_vec(), bytes, entries: None, field: None, long: None }
    }

    /// A field of it.
    #[must_use]
    pub fn with_field(self, field: &[u8]) -> Self {
        Self { field: Some(field.to_vec()), ..self }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Trouble,
    /// How bad it is.
    pub severity: Severity,
    /// Where: a family of hashes, a namespace, a setting, a key.
    pub place: String,
    /// What is wrong, in a sentence.
    pub what: String,
    /// How it came about, and what follows.
    pub why: Vec<String>,
    /// What it costs; none where memory isn't what it costs.
    pub cost_bytes: Option<u64>,
    /// Some of those concerned, the costliest first.
    pub examples: Vec<Example>,
    /// What mends it; any one of them does.
    pub mends: Vec<Mend>,
    /// Whether what is there has to be written anew.
    pub rewrite: Rewrite,
}

impl Finding {
    /// A problem that nothing mends yet.
    pub(super) fn problem(kind: Trouble, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            kind,
            severity: Severity::Problem,
            place: place.into(),
            what: what.into(),
            why: Vec::new(),
            cost_bytes: None,
            examples: Vec::new(),
            mends: Vec::new(),
            rewrite: Rewrite::No,
        }
    }

    /// A note.
    pub(super) fn note(kind: Trouble, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::problem(kind, place, what) }
    }
}
