//! What `keyfold export` is to do.

use std::path::PathBuf;

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

pub(crate) fn resolve(flags: ExportFlags) -> Export {
    let target = target::resolve(&flags.upstream);
    let out = Some(flags.out.clone()).filter(|out| out.as_os_str() != "-");
    Export { databases: databases::resolve(&flags.databases, &target.address), target, out, flags }
}
