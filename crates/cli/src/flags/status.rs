//! `keyfold status`.

use clap::Args;

use super::footer::footer;
use super::pace::PaceFlags;
use super::upstream::UpstreamFlags;
use super::wide::WideFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold status redis://127.0.0.1:6379
  keyfold status 127.0.0.1:6379 --json | jq .saved_bytes

Looks at a sample of the keys and changes nothing. What folding saves is what the folded keys would take as plain
ones, by the memory model, less what they take now.

Exit codes: 0 shown, also where nothing is folded, 1 failed, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}
