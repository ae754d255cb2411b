//! What `keyfold import` is to do.

use std::num::NonZero;
use std::path::PathBuf;

use keyfold_server::Target;

use super::target;
use crate::flags::import::ImportFlags;

pub(crate) struct Import {
    pub(crate) target: Target,
    pub(crate) file: PathBuf,
    pub(crate) mode: Mode,
    /// Where all keys go: what the flag says, or the URL where it names a database; else where the dump says.
    pub(crate) database: Option<u32>,
    pub(crate) max_ops: Option<NonZero<u32>>,
    pub(crate) list: usize,
    pub(crate) json: bool,
}

/// What becomes of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Written where they are absent.
    Add,
    /// Written.
    Replace,
    /// Looked at.
    DryRun,
}

pub(crate) fn resolve(flags: ImportFlags) -> Import {
    let ImportFlags { upstream, file, replace, dry_run, database, pace, list, json } = flags;
    let mode = match (dry_run, replace) {
        (true, _) => Mode::DryRun,
        (false, true) => Mode::Replace,
        (false, false) => Mode::Add,
    };
    let target = target::resolve(upstream);
    let named = Some(target.address.database).filter(|database| *database != 0);
    Import { target, file, mode, database: database.or(named), max_ops: pace.max_ops, list, json }
}
