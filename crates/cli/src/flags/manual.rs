//! `keyfold manual`, which packages are made with.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct ManualFlags {
    /// Where the pages go; made where it isn't there
    #[arg(value_name = "DIR")]
    pub(crate) out: PathBuf,
}
