//! `keyfold layout`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::footer::footer;
use super::pace::PaceFlags;
use super::upstream::{SettingsFlags, UpstreamFlags};
use super::wide::WideFlags;

#[derive(Args, Debug)]
pub(crate) struct LayoutFlags {
    #[command(subcommand)]
    pub(crate) command: LayoutCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LayoutCommand {
    /// Say whether a file is right, and what it says
    Check(CheckFlags),
    /// Show the layout that a server has
    Show(ShowFlags),
    /// Bring a file to a server, with the checks of serve, and without serving
    Push(PushFlags),
    /// Say what is left of a layout that was lost, and restore it
    Recover(RecoverFlags),
}

const CHECK_EXAMPLES: &str = "\
Examples:
  keyfold layout check layout.toml
  keyfold layout check layout.toml --json | jq '.namespaces[].keys'

Exit codes: 0 right (there may be warnings), 1 wrong, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(CHECK_EXAMPLES))]
pub(crate) struct CheckFlags {
    /// The layout; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  keyfold layout show redis://127.0.0.1:6379
  keyfold layout show unix:///run/redis.sock --file > layout.toml
      to change, and push
  keyfold layout show unix:///run/redis.sock --toml > kept.toml
      to keep beside backups

Exit codes: 0 shown, 1 no server or no layout there, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(SHOW_EXAMPLES))]
pub(crate) struct ShowFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Print the layout as a file, to change and bring back with fold or push
    #[arg(long, conflicts_with_all = ["json", "toml"])]
    pub(crate) file: bool,

    /// Print the layout as the server holds it, byte for byte, with the number of its change (epoch) and those of its
    /// codecs (slots). `SET keyfold:{home}:layout` takes it as it is
    #[arg(long, conflicts_with = "json")]
    pub(crate) toml: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}

const PUSH_EXAMPLES: &str = "\
Examples:
  keyfold layout push redis://127.0.0.1:6379 layout.toml

Every keyfold before that server takes the layout up while clients go on. What they write meanwhile
is folded with it.

Exit codes: 0 the server has the layout, 1 refused or failed, and nothing was changed, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(PUSH_EXAMPLES), allow_missing_positional = true)]
pub(crate) struct PushFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// The layout; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Don't look whether keys of new namespaces are on the server already. Such keys become invisible
    #[arg(long)]
    pub(crate) skip_key_check: bool,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}

const RECOVER_EXAMPLES: &str = "\
Examples:
  keyfold layout recover redis://127.0.0.1:6379 --dry-run
  keyfold layout recover redis://127.0.0.1:6379
  keyfold layout recover redis://127.0.0.1:6379 --layout layout.toml

Keyfolds that run need not be stopped. They put back a layout that is lost by themselves; this is for
when none ran, and for keys in two places.

Exit codes: 0 the layout is in force, 1 it can't be, and the reason is on stderr, 2 usage, 3 it is in
force, and some keys hold two values or another type";

#[derive(Args, Debug)]
#[command(after_help = footer(RECOVER_EXAMPLES))]
pub(crate) struct RecoverFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Where neither the server nor a keyfold knows the layout any more: the file that keys were folded by, or
    /// what `layout show --toml` printed
    #[arg(long, value_name = "FILE")]
    pub(crate) layout: Option<PathBuf>,

    /// Say what is there and what would be done, and change nothing
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
