//! `keyfold fold` and `keyfold unfold`.

use std::path::PathBuf;

use clap::Args;

use super::footer::footer;
use super::pace::PaceFlags;
use super::source::SourceFlags;
use super::units::parse_count;
use super::upstream::{SettingsFlags, UpstreamFlags};
use super::wide::WideFlags;

const FOLD_EXAMPLES: &str = "\
Examples:
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml --dry-run
      what would happen, and what it saves
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml --raise-limits
      where values are longer than the server packs by itself
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml \\
      --namespace 'user:{id:int}' --max-ops 20000 --yes
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml \\
      --from me-redis --crumbs user=u --value zlib
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml \\
      --from buckets --keys 'mediabucket:{id/1000}'

Keys move while clients of keyfold go on reading and writing them. Ctrl-C stops at any point, and so does a crash:
every key stays reachable, and the same command goes on where it was. Other buckets than before, or another span,
are folds too: change the layout's file, and fold again. What is folded comes back with keyfold unfold.
--max-ops is for the time while keys move; the looks at all keys before and after take a quarter of the time.

With --from, keys come out of hashes that an application folded them into by its own code: docs/sources.md.

Exit codes: 0 all is moved, 1 failed or interrupted, 2 usage,
  3 moved, except for keys that stay where they were, which are listed; or, over a cluster, moved and not settled yet,
    and it says why";

const UNFOLD_EXAMPLES: &str = "\
Examples:
  keyfold unfold redis://127.0.0.1:6379
  keyfold unfold redis://127.0.0.1:6379 --namespace 'user:{id:int}' --yes
  keyfold unfold redis://127.0.0.1:6379 --clean --yes
      and leave nothing of keyfold's on the server

--max-ops is for the time while keys move; the looks at all keys before and after take a quarter of the time.

Exit codes: 0 all is plain, 1 failed or interrupted, 2 usage,
  3 moved, except for keys that stay where they were, which are listed; or, over a cluster, moved and not settled yet,
    and it says why";

/// What both have.
#[derive(Args, Debug)]
pub(crate) struct MoveFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Only the namespace with these keys, as the layout writes them; may be given several times
    #[arg(long, value_name = "KEYS")]
    pub(crate) namespace: Vec<String>,

    /// Say what would happen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// How many of the keys that stay are listed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_count::<usize>)]
    pub(crate) list: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}

#[derive(Args, Debug)]
#[command(after_help = footer(FOLD_EXAMPLES))]
pub(crate) struct FoldFlags {
    #[command(flatten)]
    pub(crate) moving: MoveFlags,

    /// The layout to fold by
    #[arg(long, short, value_name = "FILE")]
    pub(crate) layout: PathBuf,

    /// Raise hash-max-listpack-entries and -value on the server and its replicas where the layout needs more (CONFIG SET)
    #[arg(long)]
    pub(crate) raise_limits: bool,

    #[command(flatten)]
    pub(crate) source: SourceFlags,
}

#[derive(Args, Debug)]
#[command(after_help = footer(UNFOLD_EXAMPLES))]
pub(crate) struct UnfoldFlags {
    #[command(flatten)]
    pub(crate) moving: MoveFlags,

    /// Remove the layout too, and whatever else keyfold keeps on the server, once nothing is folded
    #[arg(long)]
    pub(crate) clean: bool,
}
