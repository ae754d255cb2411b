//! `keyfold export`.

use std::path::PathBuf;

use clap::Args;

use super::databases::DatabaseFlags;
use super::footer::footer;
use super::pace::PaceFlags;
use super::upstream::UpstreamFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold export redis://127.0.0.1:6379 --out dump.jsonl.gz
  keyfold export redis://127.0.0.1:6379 --database 0 | jq -r .key
  keyfold export redis://127.0.0.1:6379 --out dump.jsonl --max-ops 5000
      beside clients, gently

One line of JSON for each key as clients know it, folded or not; nothing of keyfold's own. The server is read
while clients write: each key is right at one moment, the whole is no snapshot. For --max-ops a bucket is one or two
commands, a plain key one. See docs/backup.md.

Exit codes: 0 whole, 1 failed or interrupted, and nothing lies at FILE that did not before, 2 usage,
  3 written, but for values that can't be read whole; they are listed";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct ExportFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Where to: - is standard output, and a name that ends in .gz is packed. It is there once it is whole
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,

    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// Don't remember which keys were written, at some 50 bytes each (a bucket is one), beyond a million in a temporary
    /// file: a key may come twice where the server's table grows or shrinks meanwhile
    #[arg(long)]
    pub(crate) allow_repeats: bool,
}
