//! What `keyfold export` is to do.

use std::num::NonZero;
use std::path::PathBuf;

use keyfold_server::Target;
use keyfold_server::keyspace::Databases;

use super::databases;
use super::target;
use crate::flags::export::ExportFlags;

pub(crate) struct Export {
    pub(crate) target: Target,
    /// None for standard output.
    pub(crate) out: Option<PathBuf>,
    pub(crate) databases: Databases,
    pub(crate) max_ops: Option<NonZero<u32>>,
    pub(crate) allow_repeats: bool,
}

pub(crate) fn resolve(flags: ExportFlags) -> Export {
    let ExportFlags { upstream, out, databases, pace, allow_repeats } = flags;
    let target = target::resolve(upstream);
    Export {
        databases: databases::resolve(databases, &target.address),
        target,
        out: Some(out).filter(|out| out.as_os_str() != "-"),
        max_ops: pace.max_ops,
        allow_repeats,
    }
}
