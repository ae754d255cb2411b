//! What `keyfold doctor` is to look at.

use std::fs;
use std::num::NonZero;

use anyhow::Context;
use keyfold_server::Target;
use keyfold_survey::diagnosis::Expected;

use super::{databases, target};
use crate::flags::doctor::DoctorFlags;
use crate::scan::Databases;

pub(crate) struct Doctor {
    pub(crate) target: Target,
    pub(crate) databases: Databases,
    pub(crate) max_ops: Option<NonZero<u32>>,
    /// What the configuration file says that should be in effect.
    pub(crate) expected: Option<Expected>,
    pub(crate) assumed: Vec<(String, u64)>,
    pub(crate) rewrite: bool,
    pub(crate) json: bool,
}

pub(crate) fn resolve(flags: DoctorFlags) -> anyhow::Result<Doctor> {
    let DoctorFlags { upstream, databases, pace, config_file, rewrite, json, settings } = flags;
    let target = target::resolve(upstream);
    let expected = config_file.map(|path| {
        let text = fs::read(&path).with_context(|| format!("can't read the configuration file {}", path.display()))?;
        anyhow::Ok(Expected::parse(&path.display().to_string(), &String::from_utf8_lossy(&text)))
    });
    Ok(Doctor {
        databases: databases::resolve(databases, &target.address),
        target,
        max_ops: pace.max_ops,
        expected: expected.transpose()?,
        assumed: settings.assume,
        rewrite,
        json,
    })
}
