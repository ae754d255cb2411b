//! `keyfold where`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::footer::footer;
use super::upstream::UpstreamFlags;

const EXAMPLES: &str = "\
Examples:
  keyfold where redis://127.0.0.1:6379 user:1000:logins
      where the key is by the server's own layout, and what is stored there
  keyfold where user:1000:logins --layout layout.toml
      where it would be by a file; no server is asked

Bytes that don't print are escaped: \\x00.

Exit codes: 0 found a place (the key itself may be absent), 1 failed, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES), allow_missing_positional = true)]
pub(crate) struct WhereFlags {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlags,

    /// The key, as clients name it
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,

    /// The layout to locate the key by, instead of a server's
    #[arg(long, value_name = "FILE")]
    pub(crate) layout: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
