//! How hard a command may be on a server: the same for every command that asks for much.

use std::num::NonZero;

use clap::Args;

use super::units::parse_count;

/// Flattened into the flags of such a command.
#[derive(Args, Debug)]
pub(crate) struct PaceFlags {
    /// Commands a second that the server gets at most [default: as many as it takes]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZero<u32>>)]
    pub(crate) max_ops: Option<NonZero<u32>>,
}
