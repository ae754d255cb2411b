//! `keyfold analyze`: flags to what is to be done.

use anyhow::{Context, bail};

use super::trace::Trace;
use super::{origin, trace};
use crate::flags::analyze::AnalyzeFlags;
use crate::origin::Place;
use crate::scan::{Databases, KeyScan, LOOK_INTO_EVERY};

/// All that an analysis takes.
pub(crate) struct Analyze {
    pub(crate) place: Place,
    pub(crate) walk: KeyScan,
    pub(crate) databases: Databases,
    /// The requests that are to be looked at, instead of the keys.
    pub(crate) trace: Option<Trace>,
    pub(crate) flags: AnalyzeFlags,
}

pub(crate) fn resolve(flags: AnalyzeFlags) -> anyhow::Result<Analyze> {
    if let Some(path) = &flags.html {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if directory.is_some_and(|directory| !directory.is_dir()) {
            bail!("--html {}: there is no such directory", path.display());
        }
        path.file_name().context("--html: name a file")?;
    }
    let trace = trace::resolve(&flags.requests, &flags.origin, flags.pace.max_ops, &flags.settings.assume)?;
    if trace.is_some() && flags.origin.dump.is_some() {
        bail!("a dump has no requests: name the server that they are for, or none");
    }
    let (place, databases) = origin::resolve(&flags.origin, &flags.databases);
    Ok(Analyze {
        place,
        databases,
        walk: KeyScan { max_ops: flags.pace.max_ops, sample: flags.sample, sample_every: LOOK_INTO_EVERY },
        trace,
        flags,
    })
}
