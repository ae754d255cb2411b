//! `keyfold demo`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

const ABOUT: &str = "\
Fold data before your eyes, and measure what it saves.

For each data set two empty servers are started. One gets the records as plain keys; the other gets them
through keyfold, and every record is read back through keyfold and compared. What is shown is used_memory
less that of the empty server, over the number of records.

Without --data the demo makes up its own: counters, sessions, users as JSON, and rate limits that expire.";

const EXAMPLES: &str = "\
Examples:
  keyfold demo
  keyfold demo --data cities_json.jsonl.gz
  keyfold demo --data mine.jsonl --layout mine.toml --json

Exit codes:
  0  measured, and every value came back equal
  1  a value did not, or there is no server to start
  2  usage";

#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub(crate) struct DemoFlags {
    /// Records to fold, one [\"key\", \"value\"] a line, gzip or not; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Vec<PathBuf>,

    /// The layout to fold by [default: the one that comes with keyfold for a data set of that name, else one
    /// derived from the keys]
    #[arg(long, value_name = "FILE")]
    pub(crate) layout: Option<PathBuf>,

    /// Records of each data set [default: 200,000 made up, or all of a file]
    #[arg(long, value_name = "N")]
    pub(crate) records: Option<NonZero<usize>>,

    /// The server to start [default: valkey-server or redis-server on PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) server: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
