//! What `keyfold doctor` is to look at.

use std::fs;

use anyhow::Context;
use keyfold_server::Target;
use keyfold_survey::diagnosis::Expected;

use super::{databases, target};
use crate::flags::doctor::DoctorFlags;
use crate::scan::Databases;

pub(crate) struct Doctor {
    pub(crate) target: Target,
    pub(crate) databases: Databases,
    /// What the configuration file says that should be in effect.
    pub(crate) expected: Option<Expected>,
    pub(crate) flags: DoctorFlags,
}

pub(crate) fn resolve(flags: DoctorFlags) -> anyhow::Result<Doctor> {
    let target = target::resolve(&flags.upstream);
    let expected = flags.config_file.as_ref().map(|path| {
        let text = fs::read(path).with_context(|| format!("can't read the configuration file {}", path.display()))?;
        anyhow::Ok(Expected::parse(&path.display().to_string(), &String::from_utf8_lossy(&text)))
    });
    Ok(Doctor {
        databases: databases::resolve(&flags.databases, &target.address),
        target,
        expected: expected.transpose()?,
        flags,
    })
}
