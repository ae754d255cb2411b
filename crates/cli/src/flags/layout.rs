//! `keyfold layout`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use keyfold_proxy::address::ServerAddress;

use super::upstream::{SettingsFlags, UPSTREAM_HELP, UpstreamFlags, UpstreamTlsFlags};

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
}

const CHECK_EXAMPLES: &str = "\
Examples:
  keyfold layout check layout.toml
  keyfold layout check layout.toml --json | jq '.namespaces[].keys'

Exit codes: 0 right (there may be warnings), 1 wrong, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckFlags {
    /// The layout
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  keyfold layout show redis://127.0.0.1:6379
  keyfold layout show unix:///run/redis.sock --toml > layout.toml

Exit codes: 0 shown, 1 no server or no layout there, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowFlags {
    #[arg(value_name = "URL", env = "KEYFOLD_UPSTREAM", hide_env_values = true,
          default_value = "redis://127.0.0.1:6379", help = UPSTREAM_HELP)]
    pub(crate) upstream: ServerAddress,

    #[command(flatten)]
    pub(crate) tls: UpstreamTlsFlags,

    /// Print the layout as a file, to change and bring back
    #[arg(long, conflicts_with = "json")]
    pub(crate) toml: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const PUSH_EXAMPLES: &str = "\
Examples:
  keyfold layout push layout.toml --upstream redis://127.0.0.1:6379

Every keyfold before that server has to be started again afterwards: a running one keeps its layout.

Exit codes: 0 the server has the layout, 1 refused or failed, and nothing was changed, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = PUSH_EXAMPLES)]
pub(crate) struct PushFlags {
    /// The layout
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// Don't look whether keys of new namespaces are on the server already. Such keys become invisible
    #[arg(long)]
    pub(crate) skip_key_check: bool,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
