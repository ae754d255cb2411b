//! Which of a server's databases are meant: the same for every command that walks over keys.

use clap::Args;

use super::units::parse_count;

/// Flattened into the flags of such a command.
#[derive(Args, Debug)]
pub(crate) struct DatabaseFlags {
    /// Look into this database only; may be repeated [default: the URL's where it names one above 0, else all]
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>)]
    pub(crate) database: Vec<u32>,
}
