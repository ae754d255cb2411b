//! `keyfold plan`: flags to what is planned for, and with which aims.

use std::num::NonZero;

use anyhow::{Context, bail};
use keyfold_core::template::Template;

use super::trace::Trace;
use super::{origin, trace};
use crate::flags::plan::PlanFlags;
use crate::origin::Place;
use crate::scan::{Databases, KeyScan, LOOK_INTO_EVERY};

/// Keys to prove a plan with: enough that tables and buckets are as they are on large servers, and loaded twice in
/// some seconds.
const PROVE_KEYS: usize = 200_000;

/// All that planning takes.
pub(crate) struct PlanConfig {
    pub(crate) place: Place,
    /// Only these families; all that are found where there is none.
    pub(crate) templates: Vec<Template>,
    pub(crate) databases: Databases,
    pub(crate) walk: KeyScan,
    /// How many keys to prove the plan with.
    pub(crate) prove_keys: usize,
    /// Requests that say what caches find.
    pub(crate) trace: Option<Trace>,
    pub(crate) flags: PlanFlags,
}

pub(crate) fn resolve(flags: PlanFlags) -> anyhow::Result<PlanConfig> {
    let parse = |keys: &String| Template::parse(keys).with_context(|| format!("--keys {keys}"));
    let templates = flags.keys.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(out) = flags.out.as_ref().filter(|out| !flags.force && out.exists()) {
        bail!("{} is there already; write over it with --force, or name another file", out.display());
    }
    let trace = trace::resolve(&flags.requests, &flags.origin, flags.pace.max_ops, &flags.settings.assume)?;
    let (place, databases) = origin::resolve(&flags.origin, &flags.databases);
    Ok(PlanConfig {
        place,
        databases,
        templates,
        walk: KeyScan { max_ops: flags.pace.max_ops, sample: flags.sample, sample_every: LOOK_INTO_EVERY },
        prove_keys: flags.prove_keys.map_or(PROVE_KEYS, NonZero::get),
        trace,
        flags,
    })
}
