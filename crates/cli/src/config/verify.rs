//! What `keyfold verify` is to do.

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
    anyhow::ensure!(
        flags.against.as_ref().is_none_or(|path| path.as_os_str() != "-"),
        "--against reads the dump twice where it differs; write it to a file first"
    );
    Ok(Verify { databases: databases::resolve(&flags.databases, &target.address), target, flags })
}
