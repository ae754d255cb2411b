//! How wide tables may be: the same for every command that prints them.

use clap::Args;

/// Flattened into the flags of such a command.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct WideFlags {
    /// Print tables whole, however narrow the terminal is: nothing is cut or left out
    #[arg(long)]
    pub(crate) wide: bool,
}
