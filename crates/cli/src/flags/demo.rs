//! `keyfold demo`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::footer::footer;
use super::units::parse_count;
use super::wide::WideFlags;

const ABOUT: &str = "\
Fold data before your eyes, and measure what it saves.

A server of the demo's own is filled with plain keys, and clients read and write them through keyfold, four
thousand commands a second, all the time, and check every answer. Meanwhile the keyspace is analyzed and planned,
folded, and verified, by the commands that you would type. In the end there is the memory before and after, what
was predicted, latencies before, while and after, and a page with all of it over time.

With --cluster the server is a cluster of three primaries with a replica each. Once all is folded, slots move from one
primary to another, and a primary is killed, while clients go on.

With --measure it is another thing: for each data set two empty servers are started. One gets the records as plain
keys; the other gets them through keyfold, and every record is read back through keyfold and compared. What is
shown is used_memory less that of the empty server, over the number of records.

Without --data the demo makes up its own: counters, sessions, users as JSON, and rate limits that expire.";

const EXAMPLES: &str = "\
Examples:
  keyfold demo
  keyfold demo --data cities_json.jsonl.gz
  keyfold demo --cluster
  keyfold demo --measure --plot saved.svg
  keyfold demo --measure --data mine.jsonl --layout mine.toml --json

Exit codes:
  0  measured, and every value came back equal
  1  a value did not, or there is no server to start
  2  usage";

#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = footer(EXAMPLES))]
pub(crate) struct DemoFlags {
    /// Records to fold, one ["key", "value"] a line, gzip or not; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Vec<PathBuf>,

    /// Before a cluster whose slots move and one of whose nodes is killed
    #[arg(long, conflicts_with = "measure")]
    pub(crate) cluster: bool,

    /// Measure each data set by itself, plain and folded
    #[arg(long)]
    pub(crate) measure: bool,

    /// Where the page of the story is written
    #[arg(long, value_name = "FILE", default_value = "keyfold-demo.html", conflicts_with = "measure")]
    pub(crate) html: PathBuf,

    /// The layout to fold by, with --measure [default: the one that comes with keyfold for a data set of that name, else one
    /// derived from the keys]
    #[arg(long, value_name = "FILE", requires = "measure")]
    pub(crate) layout: Option<PathBuf>,

    /// Records of each data set [default: 150,000 made up, 200,000 with --measure, or all of a file]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZero<usize>>)]
    pub(crate) records: Option<NonZero<usize>>,

    /// The server to start [default: valkey-server or redis-server on PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) server: Option<PathBuf>,

    /// Draw what is measured as an SVG, with --measure
    #[arg(long, value_name = "FILE", requires = "measure")]
    pub(crate) plot: Option<PathBuf>,

    /// Print JSON, with --measure
    #[arg(long, requires = "measure")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}
