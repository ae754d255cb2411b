//! Why memory is not what it should be: from what was seen of a server to findings, each with what it costs
//! and what mends it.
//!
//! ```text
//! INFO, CONFIG ─▶ Settings, MemoryFacts, ConfigFile ┐
//! each hash    ─▶ Contents ─▶ Families              ├─ Observation ─▶ diagnose ─▶ findings
//! each name    ─▶ Leftovers                         ┘
//! ```
//! What is kept of a keyspace doesn't grow with it: sums for each family of hashes, a bounded number of
//! families, and a few examples of everything.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `settings.rs` | the server's settings, by the names it knows them by; its configuration file |
//! | `facts.rs` | what INFO says of memory |
//! | `contents.rs` | one hash, field by field: what is longest, and what it would take otherwise |
//! | `pattern.rs` | the family that a key's name belongs to |
//! | `family.rs`, `families.rs`, `fill.rs` | sums over hashes; how full they are |
//! | `partitions.rs` | sets and hashes that an application seems to have split by hand |
//! | `leftovers.rs` | what keyfold left behind: expired values, orphaned spills, unknown names |
//! | `finding.rs`, `mend.rs` | what is found, and the lines that mend it |
//! | `check/` | one file for each kind of finding |

mod check;
mod contents;
mod facts;
mod families;
mod family;
mod fill;
mod finding;
mod leftovers;
mod mend;
mod partitions;
mod pattern;
mod settings;
#[cfg(test)]
mod tests;

pub use contents::{Contents, Longest, Models};
pub use facts::MemoryFacts;
pub use families::{Families, FamilyName};
pub use family::{Cause, Encoding, Family, Seen, Tally};
pub use fill::Fill;
pub use finding::{Example, Finding, Rewrite, Severity, Trouble};
pub use leftovers::{Heap, Leftovers};
pub use mend::{Line, Mend};
pub use partitions::{LookedAt, Partitioned, PartitionedName, Partitions, Verdict, Wanted};
pub use settings::{ConfigFile, Expected, Limit, Origin, Setting, Settings};

use keyfold_core::layout::Layout;

/// Entries in a bucket that a good plan aims at: nearly all the memory is won, and reads are still as fast as
/// those of plain keys.
pub const AIM_ENTRIES: u64 = 100;

/// The layout that a server holds.
#[derive(Clone, Debug, Default)]
pub enum LayoutState {
    /// None: nobody uses keyfold here, or its layout is lost.
    #[default]
    Absent,
    /// It can't be read, and this is why.
    Damaged(String),
    /// It is this one.
    Known(Layout),
}

impl LayoutState {
    /// The layout, where there is one that reads.
    pub fn known(&self) -> Option<&Layout> {
        match self {
            Self::Known(layout) => Some(layout),
            Self::Absent | Self::Damaged(_) => None,
        }
    }
}

/// How the server is named in commands that mend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    /// `redis://127.0.0.1:6379`, as keyfold takes it; no password.
    pub url: String,
    /// `redis-cli -h 127.0.0.1 -p 6379`.
    pub redis_cli: String,
}

/// A replica of the server, which may take its place.
#[derive(Clone, Debug)]
pub struct Replica {
    /// How to name it.
    pub names: ServerNames,
    /// Its settings, or why it doesn't say.
    pub settings: Result<Settings, String>,
}

/// All that was seen of a server.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// How to name the server.
    pub names: ServerNames,
    /// Its settings.
    pub settings: Settings,
    /// Its replicas.
    pub replicas: Vec<Replica>,
    /// What it says of its memory.
    pub memory: MemoryFacts,
    /// The file its settings came from.
    pub config_file: ConfigFile,
    /// The layout it holds.
    pub layout: LayoutState,
    /// Its hashes.
    pub families: Families,
    /// Sets and hashes whose names differ in a last number.
    pub partitions: Partitions,
    /// What keyfold left behind.
    pub leftovers: Leftovers,
}

/// What is wrong, the costliest first; notes after problems.
pub fn diagnose(seen: &Observation) -> Vec<Finding> {
    let mut findings = Vec::new();
    check::settings::check(seen, &mut findings);
    check::replicas::check(seen, &mut findings);
    check::layout::check(seen, &mut findings);
    check::tables::check(seen, &mut findings);
    check::filling::check(seen, &mut findings);
    check::partitions::check(seen, &mut findings);
    check::leftovers::check(seen, &mut findings);
    check::eviction::check(seen, &mut findings);
    check::fragmentation::check(seen, &mut findings);
    mend::write_limits(&mut findings.iter_mut().flat_map(|finding| &mut finding.mends).collect::<Vec<_>>());
    findings.sort_by_key(|finding| (finding.severity, std::cmp::Reverse(finding.cost_bytes)));
    findings
}
