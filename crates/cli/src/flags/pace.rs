//! How hard a command may be on a server: the same for every command that asks for much.

use std::num::NonZero;

use clap::Args;

/// Flattened into the flags of such a command.
#[derive(Args, Debug)]
pub(crate) struct PaceFlags {
    /// Commands a second that the server gets at most [default: as many as it takes]
    #[arg(long, value_name = "N")]
    pub(crate) max_ops: Option<NonZero<u32>>,
}
