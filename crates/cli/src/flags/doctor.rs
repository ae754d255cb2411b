//! `keyfold doctor`.

use std::path::PathBuf;

use clap::Args;

use super::databases::DatabaseFlags;
use super::footer::footer;
use super::pace::PaceFlags;
use super::upstream::{SettingsFlags, UpstreamFlags};
use super::wide::WideFlags;

/// What `keyfold doctor --help` begins with.
pub(crate) const ABOUT: &str = "\
Say why memory is not what it should be.

Looks at the server's settings, at every hash and how it is encoded, at what keyfold left behind, and at what \
the process holds beyond its data. Each finding says what is wrong and where, what it costs, the very line that \
mends it, and whether buckets that are there have to be written anew. Nothing is written without --rewrite.";

const EXAMPLES: &str = "\
Examples:
  keyfold doctor redis://127.0.0.1:6379
  keyfold doctor redis://127.0.0.1:6379 --config-file /etc/redis/redis.conf
      is that file in effect?
  keyfold doctor rediss://user:password@managed.example:6379 \\
      --assume hash-max-listpack-entries=512
      where CONFIG is blocked
  keyfold doctor redis://127.0.0.1:6379 --max-ops 2000
      without disturbing anybody
  keyfold doctor redis://127.0.0.1:6379 --rewrite
      write hashtables that needn't be any anew, while clients go on

For --max-ops, ten names and fifty fields count as a command.

Exit codes:
  0  nothing found (there may be notes)
  1  failed, or stopped before everything was looked at; what was seen is printed
  2  the command line is wrong
  3  problems found";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct DoctorFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// The configuration file that should be in effect: its limits are compared with the server's
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,

    /// Write hashtables anew that are within the limits, one at a time, while clients go on
    #[arg(long)]
    pub(crate) rewrite: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}
