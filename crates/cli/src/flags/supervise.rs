//! `keyfold supervise`, which keyfold runs itself as. See `keyfold_server::supervisor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct SuperviseFlags {
    /// A file to lock while the server runs
    #[arg(long)]
    pub(crate) lock: Option<PathBuf>,

    /// A directory to remove once it has ended
    #[arg(long)]
    pub(crate) scratch: PathBuf,

    /// The server and its arguments
    #[arg(last = true, required = true)]
    pub(crate) server: Vec<OsString>,
}
