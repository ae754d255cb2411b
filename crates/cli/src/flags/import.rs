//! `keyfold import`.

use std::path::PathBuf;

use clap::Args;

use super::footer::footer;
use super::pace::PaceFlags;
use super::units::parse_count;
use super::upstream::UpstreamFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold import redis://127.0.0.1:6379 dump.jsonl.gz --dry-run
  keyfold import redis://127.0.0.1:6379 dump.jsonl.gz
  keyfold import redis://127.0.0.1:6379 dump.jsonl --replace

Keys go where the server's own layout places them, and stay plain where it has none. Keys that are there already
with the same value and expiry are passed over, so that an import that was broken off is simply run again.

Exit codes: 0 all is there, 1 failed or interrupted; what was written before stays, 2 usage,
  3 some keys were not written; they are listed. Or the dump has no last line, and may have been cut off";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES), allow_missing_positional = true)]
pub(crate) struct ImportFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// The dump, as keyfold export wrote it; - is standard input, and a name that ends in .gz is packed
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Overwrite keys that hold something else
    #[arg(long)]
    pub(crate) replace: bool,

    /// Read the whole dump, say what would be written and which keys are there already, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Put all keys into this database, whatever the dump says
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>)]
    pub(crate) database: Option<u32>,

    /// The dump was made or filtered by hand, and has no right last line by which it is known to be whole
    #[arg(long)]
    pub(crate) without_end: bool,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// How many of the keys that were not written are listed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_count::<usize>)]
    pub(crate) list: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
