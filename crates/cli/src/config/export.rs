//! What `keyfold export` is to do.

use std::path::PathBuf;

use anyhow::bail;
use keyfold_server::Target;
use keyfold_server::keyspace::Databases;

use super::{databases, target};
use crate::flags::export::ExportFlags;

pub(crate) struct Export {
    pub(crate) target: Target,
    /// None for standard output.
    pub(crate) out: Option<PathBuf>,
    pub(crate) databases: Databases,
    pub(crate) flags: ExportFlags,
}

pub(crate) fn resolve(flags: ExportFlags) -> anyhow::Result<Export> {
    let target = target::resolve(&flags.upstream);
    let out = Some(flags.out.clone()).filter(|out| out.as_os_str() != "-");
    if let Some(there) = out.as_ref().filter(|out| out.exists()) {
        // A dump takes its name by a rename, which would put a file in the place of a device.
        if !there.is_file() {
            bail!("{} is no file; write to standard output instead, --out -, and send that there", there.display());
        }
        // It may be the only dump there is.
        if !flags.force {
            bail!("{} is there already; write over it with --force, or name another file", there.display());
        }
    }
    Ok(Export { databases: databases::resolve(&flags.databases, &target.address), target, out, flags })
}
