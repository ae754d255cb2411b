//! What `keyfold verify` is to do.

use std::num::NonZero;
use std::path::PathBuf;

use keyfold_server::Target;
use keyfold_server::keyspace::Databases;

use super::databases;
use super::target;
use crate::flags::verify::VerifyFlags;

pub(crate) struct Verify {
    pub(crate) target: Target,
    pub(crate) against: Option<PathBuf>,
    pub(crate) ttl_tolerance_ms: u64,
    pub(crate) databases: Databases,
    pub(crate) encodings: bool,
    pub(crate) max_ops: Option<NonZero<u32>>,
    pub(crate) list: usize,
    pub(crate) json: bool,
}

pub(crate) fn resolve(flags: VerifyFlags) -> anyhow::Result<Verify> {
    let VerifyFlags { upstream, against, ttl_tolerance_ms, databases, skip_encodings, pace, list, json } = flags;
    let target = target::resolve(upstream);
    anyhow::ensure!(
        against.as_ref().is_none_or(|path| path.as_os_str() != "-"),
        "--against reads the dump twice where it differs; write it to a file first"
    );
    Ok(Verify {
        databases: databases::resolve(databases, &target.address),
        target,
        against,
        ttl_tolerance_ms,
        encodings: !skip_encodings,
        max_ops: pace.max_ops,
        list,
        json,
    })
}
