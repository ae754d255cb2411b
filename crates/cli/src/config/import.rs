//! What `keyfold import` is to do.

use keyfold_server::Target;

use super::target;
use crate::flags::import::ImportFlags;

pub(crate) struct Import {
    pub(crate) target: Target,
    pub(crate) mode: Mode,
    /// Where all keys go: what the flag says, or the URL where it names a database; else where the dump says.
    pub(crate) database: Option<u32>,
    pub(crate) flags: ImportFlags,
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
    let mode = match (flags.dry_run, flags.replace) {
        (true, _) => Mode::DryRun,
        (false, true) => Mode::Replace,
        (false, false) => Mode::Add,
    };
    let target = target::resolve(&flags.upstream);
    let named = Some(target.address.database).filter(|database| *database != 0);
    Import { target, mode, database: flags.database.or(named), flags }
}
