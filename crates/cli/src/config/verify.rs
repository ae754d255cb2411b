//! What `keyfold verify` is to do.

use std::path::Path;

use keyfold_server::Target;
use keyfold_server::keyspace::Databases;

use super::{databases, target};
use crate::flags::verify::VerifyFlags;

pub(crate) struct Verify {
    pub(crate) target: Target,
    pub(crate) databases: Databases,
    pub(crate) flags: VerifyFlags,
}

pub(crate) fn resolve(flags: VerifyFlags) -> anyhow::Result<Verify> {
    let target = target::resolve(&flags.upstream);
    // What comes from a pipe is gone once it was read.
    let goes_by_once = |path: &Path| path.as_os_str() == "-" || path.metadata().is_ok_and(|found| !found.is_file());
    anyhow::ensure!(
        !flags.against.as_deref().is_some_and(goes_by_once),
        "--against reads the dump twice where it differs; write it to a file first"
    );
    Ok(Verify { databases: databases::resolve(&flags.databases, &target.address), target, flags })
}
