//! `keyfold analyze`: flags to what is to be done.

use std::path::PathBuf;

use anyhow::{Context, bail};
use keyfold_server::Target;

use super::databases;
use super::target;
use crate::flags::analyze::AnalyzeFlags;
use crate::flags::pace::PaceFlags;
use crate::scan::{Databases, KeyScan};

/// Of one key in so many the value is looked at, too.
const LOOK_AT_VALUES_EVERY: u64 = 32;

/// All that an analysis takes.
pub(crate) struct Analyze {
    pub(crate) target: Target,
    pub(crate) walk: KeyScan,
    pub(crate) databases: Databases,
    /// Whether values are read to weigh codecs by.
    pub(crate) weighs_codecs: bool,
    pub(crate) assumed: Vec<(String, u64)>,
    pub(crate) growth: f64,
    pub(crate) usd_per_gb_month: Option<f64>,
    pub(crate) html: Option<PathBuf>,
    pub(crate) json: bool,
}

pub(crate) fn resolve(flags: AnalyzeFlags) -> anyhow::Result<Analyze> {
    let AnalyzeFlags {
        upstream,
        sample,
        pace: PaceFlags { max_ops },
        no_values,
        databases,
        growth,
        usd_per_gb_month,
        html,
        json,
        settings,
    } = flags;
    let target = target::resolve(upstream);
    let databases = databases::resolve(databases, &target.address);
    if let Some(path) = &html {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if directory.is_some_and(|directory| !directory.is_dir()) {
            bail!("--html {}: there is no such directory", path.display());
        }
        path.file_name().context("--html: name a file")?;
    }
    Ok(Analyze {
        target,
        walk: KeyScan { max_ops, sample, sample_every: LOOK_AT_VALUES_EVERY },
        databases,
        weighs_codecs: !no_values,
        assumed: settings.assume,
        growth,
        usd_per_gb_month,
        html,
        json,
    })
}
