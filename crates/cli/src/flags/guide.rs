//! `keyfold try`.

use std::path::PathBuf;

use clap::Args;

use super::footer::footer;
use super::pace::PaceFlags;
use super::upstream::{SettingsFlags, UpstreamFlags};
use super::wide::WideFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold try redis://127.0.0.1:6379
  keyfold try redis://127.0.0.1:6379 --yes --out layout.toml
      without questions, where a keyfold serves already

Plans a layout, says what it saves and which settings it needs, sees to it that
a keyfold serves, asks, folds, and says how to go back. Each step shows the
command that does the same. Until you say yes nothing is changed.

Exit codes: 0 folded, or there was nothing to fold, or you said no, 1 failed, or
  no keyfold serves, 2 usage, 3 folded, except for keys that are listed";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct GuideFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Where the layout is written; one that is there is taken as it is
    #[arg(long, value_name = "FILE", default_value = "keyfold-layout.toml")]
    pub(crate) out: PathBuf,

    /// Plan for the server's settings as they are, and raise none
    #[arg(long)]
    pub(crate) keep_settings: bool,

    /// Fold though no keyfold serves: nobody else uses these keys
    #[arg(long)]
    pub(crate) unserved: bool,

    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}
