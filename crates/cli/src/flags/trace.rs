//! Requests that were made to a cache, and the cache that there is.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use keyfold_survey::caching::ServerPolicy;

use super::units::{Bytes, Wait, parse_count};

const HEADING: &str = "Caches";

/// Flattened into the flags of commands that say what a cache would find.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = HEADING)]
pub(crate) struct TraceFlags {
    /// Say what caches find of the requests in this file, by their memory: a key to a line, also with the value's length and
    /// get, set or delete; or what MONITOR shows. Also packed by gzip, zstd or xz, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub(crate) trace: Option<PathBuf>,

    /// The same of the requests that come to the server or to the keyfold that is named, for so long: 10m. MONITOR is on for
    /// a part of the time, so that on the mean no more than --max-ops lines come in a second [default there: 20000]
    #[arg(long, value_name = "TIME")]
    pub(crate) watch: Option<Wait>,

    /// How long values are of which nobody says it [default: as long as the others on the mean, or 100]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZero<u32>>)]
    pub(crate) value_bytes: Option<NonZero<u32>>,

    /// The memory of the cache that there is: 12gb [default: the server's maxmemory]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_memory: Option<Bytes>,

    /// How it evicts: lru or lfu [default: by the server's maxmemory-policy, else lru]
    #[arg(long, value_name = "POLICY", hide_possible_values = true)]
    pub(crate) evicts_by: Option<EvictsBy>,
}

/// A server's way to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvictsBy {
    Lru,
    Lfu,
}

impl From<EvictsBy> for ServerPolicy {
    fn from(by: EvictsBy) -> Self {
        match by {
            EvictsBy::Lru => Self::Recency,
            EvictsBy::Lfu => Self::Frequency,
        }
    }
}
