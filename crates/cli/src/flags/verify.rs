//! `keyfold verify`.

use std::path::PathBuf;

use clap::Args;

use super::databases::DatabaseFlags;
use super::footer::footer;
use super::pace::PaceFlags;
use super::units::parse_count;
use super::upstream::UpstreamFlags;
use super::wide::WideFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold verify redis://127.0.0.1:6379
  keyfold verify redis://127.0.0.1:6379 --against dump.jsonl.gz
  keyfold verify redis://127.0.0.1:6379 --json | jq .findings

Looks at everything and changes nothing. See docs/backup.md for what each finding means.

Exit codes: 0 all is as it should be, 1 failed or interrupted, 2 usage, 3 there are findings, or the
  dump has no last line and may have been cut off, 4 the dump and the server differ (there may be findings too)";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct VerifyFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// A dump that keyfold export wrote: its keys, values and expiries have to be those of the server
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,

    /// The dump was made or filtered by hand, and has no right last line by which it is known to be whole
    #[arg(long, requires = "against")]
    pub(crate) without_end: bool,

    /// How far expiries may differ. Above 0, verify remembers every expiry of the dump, some 50 bytes each, beyond a
    /// million in a temporary file
    #[arg(long, value_name = "MS", default_value_t = 0, requires = "against")]
    pub(crate) ttl_tolerance_ms: u64,

    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,

    /// Don't ask how buckets are encoded: for servers that refuse OBJECT, or as one command less a bucket
    #[arg(long)]
    pub(crate) skip_encodings: bool,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// How many findings, and how many keys that differ, are listed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_count::<usize>)]
    pub(crate) list: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}
