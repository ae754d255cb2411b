//! `keyfold plan`: flags to what is planned for, and with which aims.

use std::num::NonZero;
use std::path::PathBuf;

use anyhow::{Context, bail};
use keyfold_core::template::Template;
use keyfold_server::Target;

use super::databases;
use super::target;
use crate::flags::plan::PlanFlags;
use crate::scan::{Databases, KeyScan};

/// Keys to prove a plan with: enough that tables and buckets are as they are on large servers, and loaded twice in
/// some seconds.
const PROVE_KEYS: usize = 200_000;

/// All that planning takes.
pub(crate) struct PlanConfig {
    pub(crate) target: Target,
    pub(crate) out: Option<PathBuf>,
    pub(crate) growth: f64,
    pub(crate) min_saving: f64,
    pub(crate) text_tables: bool,
    /// Only these families; all that are found where there is none.
    pub(crate) templates: Vec<Template>,
    pub(crate) databases: Databases,
    pub(crate) walk: KeyScan,
    /// Whether values are read to weigh codecs by.
    pub(crate) weighs_codecs: bool,
    /// Whether the server's settings stay as they are.
    pub(crate) keeps_settings: bool,
    pub(crate) assume: Vec<(String, u64)>,
    pub(crate) proof: Option<ProofConfig>,
    pub(crate) json: bool,
}

/// How a plan is proved.
pub(crate) struct ProofConfig {
    pub(crate) keys: usize,
    pub(crate) server: Option<PathBuf>,
}

pub(crate) fn resolve(flags: PlanFlags) -> anyhow::Result<PlanConfig> {
    let parse = |keys: &String| Template::parse(keys).with_context(|| format!("--keys {keys}"));
    let templates = flags.keys.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(out) = flags.out.as_ref().filter(|out| !flags.force && out.exists()) {
        bail!("{} is there already; write over it with --force, or name another file", out.display());
    }
    let keys = flags.prove_keys.map_or(PROVE_KEYS, NonZero::get);
    let target = target::resolve(flags.upstream);
    Ok(PlanConfig {
        databases: databases::resolve(flags.databases, &target.address),
        target,
        out: flags.out,
        growth: flags.growth,
        min_saving: flags.min_saving,
        text_tables: !flags.no_text_tables,
        templates,
        walk: KeyScan { max_ops: flags.pace.max_ops, sample: flags.sample, sample_every: 0 },
        weighs_codecs: !flags.no_values,
        keeps_settings: flags.keep_settings,
        assume: flags.settings.assume,
        proof: flags.prove.then_some(ProofConfig { keys, server: flags.server }),
        json: flags.json,
    })
}
