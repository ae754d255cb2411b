//! What a walk finds that is not as it should be.

use std::collections::BTreeMap;
use std::fmt;

use keyfold_core::named;
use serde_json::{Value, json};

use keyfold_report::number;

named! {
    /// What is wrong.
    pub(crate) enum FindingKind {
        NotABucket = "not-a-bucket",
        StrangeField = "strange-field",
        DamagedValue = "damaged-value",
        UnknownCodec = "unknown-codec",
        MissingSpill = "missing-spill",
        OrphanedSpill = "orphaned-spill",
        StraySpill = "stray-spill",
        HiddenKey = "hidden-key",
        Twin = "twin",
        InBothPlaces = "in-both-places",
        UnknownName = "unknown-name",
        Hashtable = "hashtable",
        WrongNode = "wrong-node",
    }
}

impl FindingKind {
    /// What it means, and what to do.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::NotABucket => "a bucket's name holds another type: something wrote past keyfold; rename it away",
            Self::StrangeField => "no key of the layout lies in that field: something wrote past keyfold",
            Self::DamagedValue => "the stored value is none that keyfold writes; set the key again",
            Self::UnknownCodec => "the stored value needs a codec that the layout doesn't have; use a newer keyfold",
            Self::MissingSpill => "the field points to a spilled value that is gone (evicted, deleted past keyfold?)",
            Self::OrphanedSpill => "no field points to the spilled value; keyfold's sweep removes it",
            Self::StraySpill => "the spilled value is of a key that doesn't lie in that namespace's buckets",
            Self::HiddenKey => "a plain key that belongs into a bucket: clients of keyfold don't see it",
            Self::Twin => "a key lies both plain and folded: clients of keyfold see the folded one only",
            Self::InBothPlaces => {
                "a key that is being moved lies in both places with a value each: clients see the one in the new place; remove the other"
            }
            Self::UnknownName => "a reserved name that this layout doesn't write",
            Self::WrongNode => {
                "a key on a node that doesn't have its slot: no client finds it; delete it there, or reshard anew"
            }
            Self::Hashtable => "the bucket is a hashtable and saves nothing; it stays one until it is written anew",
        }
    }

    /// Whether a value that someone may want is not among the records for it.
    pub(crate) fn leaves_out(self) -> bool {
        !matches!(self, Self::OrphanedSpill | Self::StraySpill | Self::Hashtable)
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    pub(crate) database: u32,
    pub(crate) physical: Vec<u8>,
    pub(crate) field: Option<Vec<u8>>,
    /// The logical key, where there is one.
    pub(crate) key: Option<Vec<u8>>,
    /// What more is known; may be empty.
    pub(crate) detail: String,
    /// Where the node of a cluster is that it lies on.
    pub(crate) node: Option<String>,
}

impl Finding {
    pub(crate) fn json(&self) -> Value {
        let escaped = |bytes: &Vec<u8>| bytes.escape_ascii().to_string();
        json!({
            "kind": self.kind.name(),
            "db": self.database,
            "physical": escaped(&self.physical),
            "field": self.field.as_ref().map(escaped),
            "key": self.key.as_ref().map(escaped),
            "detail": self.detail,
            "node": self.node,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, database, physical, field, key, detail, node } = self;
        write!(f, "{}: db {database} \"{}\"", kind.name(), physical.escape_ascii())?;
        if let Some(field) = field {
            write!(f, " field \"{}\"", field.escape_ascii())?;
        }
        if let Some(key) = key.as_ref().filter(|key| *key != physical) {
            write!(f, " (key \"{}\")", key.escape_ascii())?;
        }
        if let Some(node) = node {
            write!(f, " at {node}")?;
        }
        if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
    }
}

/// Findings, counted and in part listed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<FindingKind, u64>,
    pub(crate) listed: Vec<Finding>,
    list: usize,
}

impl Tally {
    /// At most `list` are kept.
    pub(crate) fn new(list: usize) -> Self {
        Self { list, ..Self::default() }
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.kind).or_default() += 1;
        if self.listed.len() < self.list {
            self.listed.push(finding);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many leave a value out of the records.
    pub(crate) fn left_out(&self) -> u64 {
        self.counts.iter().filter(|(kind, _)| kind.leaves_out()).map(|(_, count)| count).sum()
    }

    pub(crate) fn json(&self) -> Value {
        let counts: serde_json::Map<_, _> =
            self.counts.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count))).collect();
        let listed: Vec<_> = self.listed.iter().map(Finding::json).collect();
        json!({ "count": self.count(), "kinds": counts, "listed": listed })
    }
}

/// Each kind with its number and what it means, then the findings that were kept.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.counts {
            writeln!(f, "{:14} {:>7}  {}", kind.name(), number::count(*count), kind.meaning())?;
        }
        for finding in &self.listed {
            writeln!(f, "  {finding}")?;
        }
        let more = self.count() - self.listed.len() as u64;
        if more > 0 { writeln!(f, "  … and {} more", number::count(more)) } else { Ok(()) }
    }
}
