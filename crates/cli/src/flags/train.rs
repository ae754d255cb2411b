//! `keyfold train`.

use clap::Args;

use super::footer::footer;
use super::pace::PaceFlags;
use super::upstream::UpstreamFlags;
use super::wide::WideFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold train redis://127.0.0.1:6379 --dry-run
      what would a new dictionary save?
  keyfold train redis://127.0.0.1:6379
  keyfold train redis://127.0.0.1:6379 --namespace 'page:{path}' --codec auto

Samples the values of each namespace that has a codec in the layout, trains dictionaries from three quarters of the
sample, judges them by the rest, and has values written by the best from then on, where it is notably better than
what is in use. Values written before stay as they are, and readable; keyfold recode stores them again.

Exit codes: 0 done, 1 failed or interrupted: nothing was changed, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct TrainFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Only the namespace with these keys, as the layout writes them; may be given several times
    #[arg(long, value_name = "KEYS")]
    pub(crate) namespace: Vec<String>,

    /// Another codec than the layout names, for the namespaces given: zstd, fsst, fields, hex, uuid, auto
    #[arg(long, value_name = "CODEC", requires = "namespace")]
    pub(crate) codec: Option<String>,

    /// Take the best even where what is in use is as good
    #[arg(long)]
    pub(crate) force: bool,

    /// Say what would be chosen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}
