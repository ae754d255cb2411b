//! `keyfold recode`.

use clap::Args;

use super::footer::footer;
use super::pace::PaceFlags;
use super::units::parse_count;
use super::upstream::UpstreamFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold recode redis://127.0.0.1:6379
  keyfold recode redis://127.0.0.1:6379 --namespace 'page:{path}' \\
      --max-ops 20000

Stores values again that were written before the codec in use: raw, by an older dictionary, or by another codec.
Clients go on reading and writing. Ctrl-C stops at any point, and so does a crash: every value stays readable, and the
same command goes on where it was. A value names its codec by a number, its slot: once none
names an old one, that slot and its dictionary are removed.

Exit codes: 0 all values are stored by the codec in use, 1 failed or interrupted, 2 usage,
  3 done, except for values that can't be decoded, which are listed; or, over a cluster, a failover could bring
    values back as they were. All slots stay then";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct RecodeFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Only the namespace with these keys, as the layout writes them; may be given several times
    #[arg(long, value_name = "KEYS")]
    pub(crate) namespace: Vec<String>,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// How many of the values that stay are listed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_count::<usize>)]
    pub(crate) list: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
