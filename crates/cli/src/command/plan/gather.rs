//! The families of a server's keys, each with a sample of them: by the templates that were given.

use std::ops::ControlFlow;

use anyhow::bail;
use keyfold_core::template::{Part, Parts, Template};
use keyfold_survey::observation::{Content, Kind, Observation};
use keyfold_survey::population::{Blocks, Population, SampledKey};
use keyfold_survey::sample::{Block, BlockSample};

use crate::config::plan::PlanConfig;
use crate::print::progress::Progress;
use crate::scan::{self, End, Walked};
use crate::server::Server;

/// What the sample of one family may take: some 80,000 keys, enough for hundreds of full buckets.
const SAMPLE_BYTES: usize = 8 << 20;

/// A family of keys, as far as it was seen.
pub(crate) struct Gathered {
    pub(crate) template: Template,
    /// How many keys it has; an estimate where not all keys of the server were seen.
    pub(crate) keys: u64,
    pub(crate) sample: Vec<SampledKey>,
    pub(crate) blocks: Blocks,
    pub(crate) kept: f64,
    pub(crate) within: f64,
}

impl Gathered {
    /// As the chooser takes it.
    pub(crate) fn population(&self) -> Population<'_> {
        let Self { template, keys, sample, blocks, kept, within } = self;
        Population { template, keys: *keys, sample, blocks: *blocks, kept: *kept, within: *within }
    }
}

/// What a walk over the server gave.
pub(crate) struct Survey {
    pub(crate) families: Vec<Gathered>,
    /// How many keys were seen, and how many there are.
    pub(crate) seen: u64,
    pub(crate) total: u64,
    /// What is to be known of it.
    pub(crate) notes: Vec<String>,
}

/// Walks over the server.
pub(crate) fn gather(server: &mut Server, config: &PlanConfig) -> anyhow::Result<Survey> {
    let databases = scan::databases(server)?;
    let total: u64 = databases.iter().map(|database| database.keys).sum();
    if total == 0 {
        bail!("the server at {} holds no keys: there is nothing to plan for", server.address());
    }
    let mut families: Vec<_> = config.templates.iter().cloned().map(Growing::new).collect();
    let mut progress = Progress::new("looking at keys", usize::try_from(total)?);
    let walked = config.walk.run(server, &databases, &mut |page| {
        progress.advance(page.keys.len());
        page.keys.iter().for_each(|key| offer(&mut families, key));
        ControlFlow::Continue(())
    });
    drop(progress);
    let Walked { end, keys: seen, denied, .. } = walked;
    let mut notes: Vec<_> = denied
        .iter()
        .map(|(command, _)| format!("{command} was refused: {}", scan::Denied::consequence(command)))
        .collect();
    match end {
        End::Complete => {}
        End::Stopped => notes.push("stopped early: what is said is of the keys seen until then".to_owned()),
        End::Lost(error) if seen == 0 => return Err(error),
        End::Lost(error) => {
            notes.push(format!("the walk ended early, and what is said is of the keys seen: {error:#}"));
        }
    }
    if databases.len() > 1 {
        notes.push("several databases hold keys; each has buckets of its own, so fills are less than said".to_owned());
    }
    let share = (seen as f64 / total as f64).min(1.0);
    // Some keys come and go while one looks.
    let share = if share > 0.99 && config.walk.sample.is_none() { 1.0 } else { share };
    let families = families.into_iter().filter_map(|family| family.finish(share)).collect();
    Ok(Survey { families, seen, total, notes })
}

fn offer(families: &mut [Growing], observation: &Observation) {
    let Observation { key, kind: Kind::String, content: Content::String(value), has_expiry, .. } = observation else {
        return;
    };
    for family in families {
        let mut parts = Parts::new();
        if family.template.begins(key) && family.template.parse_key(key, &mut parts) {
            let block = match family.blocks {
                Blocks::Ids(part) => match parts.get(part) {
                    Some(Part::Int(id)) => Block::of_id(*id),
                    _ => Block::of_bytes(key),
                },
                _ => Block::of_bytes(key),
            };
            family.keys += 1;
            family.sample.offer(block, key, *value, *has_expiry);
            return;
        }
    }
}

/// A family while the walk goes on.
struct Growing {
    template: Template,
    blocks: Blocks,
    keys: u64,
    sample: BlockSample,
}

impl Growing {
    fn new(template: Template) -> Self {
        let int = template.placeholders().iter().position(|part| part.kind.is_int());
        let blocks = int.map_or(Blocks::Keys, Blocks::Ids);
        Self { template, blocks, keys: 0, sample: BlockSample::new(SAMPLE_BYTES) }
    }

    /// The family, where `share` of the server's keys was seen; none where no key was.
    fn finish(self, share: f64) -> Option<Gathered> {
        let Self { template, blocks, keys, sample } = self;
        let (kept, within) = (sample.kept_blocks(), sample.kept_within() * share);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
        let keys = (keys as f64 / share).round() as u64;
        (keys > 0).then(|| Gathered { template, keys, sample: sample.into_keys(), blocks, kept, within })
    }
}
