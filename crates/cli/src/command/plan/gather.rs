//! The families of a server's keys, each with a sample of them: found from the keys, or those of the templates that
//! were given.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use anyhow::{anyhow, bail};
use keyfold_core::collection::CollectionKind;
use keyfold_core::layout::Layout;
use keyfold_core::memory::{Limits, Model};
use keyfold_core::placement::name::{ADMINISTRATION_PREFIX, DATA_PREFIX};
use keyfold_core::template::{Part, Parts, Template};
use keyfold_report::number::{bytes, decimals, size};
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_survey::advice;
use keyfold_survey::codec::Coding;
use keyfold_survey::in_parts::InParts;
use keyfold_survey::observation::{Content, Kind, Observation, READ_WHOLE_BYTES};
use keyfold_survey::population::{Blocks, Population, SampledKey};
use keyfold_survey::remedy::{REWRITTEN, Remedy};
use keyfold_survey::sample::{Block, BlockSample, PlainAndPacked};
use keyfold_survey::slot_tally::{self, SlotTally};
use keyfold_survey::summary::HandMade;
use keyfold_survey::survey::{self, FamilyFindings, Folded};

use crate::config::plan::PlanConfig;
use crate::origin::{Node, Origin, Seen};
use crate::scan::{Denied, End, Walked};

/// What the sample of one family may take: some 40,000 keys, enough for hundreds of full buckets.
const SAMPLE_BYTES: usize = 4 << 20;

/// What the keys whose values may be read may take.
const EVEN_BYTES: usize = 2 << 20;

/// A family of keys, as far as it was seen.
pub(crate) struct Gathered {
    pub(crate) template: Template,
    /// Which collections its keys are, where they aren't strings.
    pub(crate) collection: Option<CollectionKind>,
    /// How many keys it has; an estimate where not all keys of the server were seen.
    pub(crate) keys: u64,
    pub(crate) sample: Vec<SampledKey>,
    /// Keys sampled one by one, whose values may be read.
    pub(crate) even: Vec<SampledKey>,
    pub(crate) blocks: Blocks,
    pub(crate) kept: f64,
    pub(crate) within: f64,
    pub(crate) slots_seen: f64,
    /// What codecs make of its values.
    pub(crate) codings: Vec<Coding>,
    /// What settings of the server would save without folding.
    pub(crate) remedy: Option<Remedy>,
    /// Where they are buckets that somebody made by hand.
    pub(crate) hand_made: Option<HandMade>,
}

impl Gathered {
    /// As the chooser takes it.
    pub(crate) fn population(&self) -> Population<'_> {
        let Self { template, collection, keys, sample, blocks, kept, within, slots_seen, .. } = self;
        Population {
            template,
            collection: *collection,
            keys: *keys,
            sample,
            blocks: *blocks,
            kept: *kept,
            within: *within,
            slots_seen: *slots_seen,
        }
    }
}

/// What a walk over the server gave.
pub(crate) struct Survey {
    pub(crate) families: Vec<Gathered>,
    /// Keys that no layout places, most for their type, with how many there are.
    pub(crate) others: Vec<(Template, u64)>,
    /// What the server's layout has folded already.
    pub(crate) folded: Vec<Folded>,
    /// How many keys were seen, and how many there are, as the server counts them.
    pub(crate) seen: u64,
    pub(crate) total: u64,
    /// How many of them expire.
    pub(crate) expiring: u64,
    /// What is to be known of it.
    pub(crate) notes: Vec<String>,
    /// Whether values may be read, too.
    pub(crate) reads_values: bool,
    /// The primaries of a cluster; none of one server.
    pub(crate) nodes: Vec<Node>,
}

impl Survey {
    /// How many keys there are to clients: those in buckets one by one.
    pub(crate) fn logical_keys(&self) -> u64 {
        advice::logical_keys(self.total, &self.folded)
    }

    /// So many bytes of all keys, as far as they are those of one node's.
    pub(crate) fn of_node(&self, node: &Node, bytes: u64) -> f64 {
        let keys: u64 = self.nodes.iter().map(|node| node.keys).sum();
        bytes as f64 * node.keys as f64 / keys.max(1) as f64
    }
}

/// Walks over the keys; with the layout that has folded some of them.
pub(crate) fn gather(
    origin: &mut dyn Origin,
    config: &PlanConfig,
    interrupt: &Interrupt,
) -> anyhow::Result<(Survey, Option<Layout>)> {
    let mut stored = origin.stored()?;
    let known = origin.known();
    let whose = if known.dump.is_some() { "" } else { "the server at " };
    let (place, model) = (format!("{whose}{}", known.address), known.facts.model.clone());
    let nothing = || anyhow!("{place} holds no keys: there is nothing to plan for");
    if known.dump.is_none() && known.total == 0 {
        return Err(nothing());
    }
    let wanted = config.walk.sample.map_or(known.total, |sample| sample.get().min(known.total));
    let (unit, work) = known.work(wanted);
    let work = usize::try_from(work)?;
    let mut gathering = Gathering::new(&config.templates, &model, stored.as_ref());
    let mut progress = Progress::new(format!("looking at {unit}"), work);
    let mut seen = 0;
    let walked = origin.walk(&config.walk, &mut |found| {
        match found {
            Seen::Page(page, done) => {
                progress.advance(done);
                // What keyfold keeps for itself is no family of anybody's.
                for key in page.keys.iter().filter(|one| !one.key.starts_with(ADMINISTRATION_PREFIX)) {
                    gathering.observe(page.database, key);
                    seen += 1;
                }
            }
            Seen::Again(layout) => {
                stored = Some(*layout);
                gathering = Gathering::new(&config.templates, &model, stored.as_ref());
                (progress, seen) = (Progress::new(format!("looking at {unit}"), work), 0);
            }
        }
        if interrupt.wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(progress);
    let Walked { end, denied, .. } = walked;
    let mut notes: Vec<_> =
        denied.iter().map(|(command, _)| format!("{command} was refused: {}", Denied::consequence(command))).collect();
    let ended = matches!(end, End::Complete);
    match end {
        End::Complete if seen == 0 => return Err(nothing()),
        End::Complete => {}
        End::Stopped => notes.push("stopped early: what is said is of the keys seen until then".to_owned()),
        End::Lost(error) if seen == 0 => return Err(error),
        End::Lost(error) => {
            notes.push(format!("the walk ended early, and what is said is of the keys seen: {error:#}"));
        }
    }
    let known = origin.known();
    if known.databases > 1 {
        notes.push(
            "several databases hold keys, and each has buckets of its own: one placement is chosen for all, by all of their keys"
                .to_owned(),
        );
    }
    // Some keys come and go while one looks: where all were to be seen, those that were seen are all.
    let total = if ended && config.walk.sample.is_none() { seen } else { known.total.max(seen) };
    let min_saving = (!config.flags.keep_settings).then_some(config.flags.min_saving);
    let remedied = Remedied { limits: &known.facts.limits, min_saving };
    let Harvest { families, others, folded, expiring } = gathering.finish(seen, total, remedied, &mut notes);
    if families.is_empty() && !config.templates.is_empty() {
        let templates: Vec<_> = config.templates.iter().map(Template::source).collect();
        bail!("{place} holds no keys of {}", templates.join(", "));
    }
    let reads_values = ended && !denied.contains("GET");
    let survey =
        Survey { families, others, folded, seen, total, expiring, notes, reads_values, nodes: known.nodes.clone() };
    Ok((survey, stored))
}

/// Families as they are found, or those that were asked for.
enum Gathering {
    Found(Box<survey::Survey>),
    Asked(Vec<Growing>, Box<Asked>),
}

/// Which changes of the server's settings are spoken of.
#[derive(Clone, Copy)]
struct Remedied<'l> {
    limits: &'l Limits,
    /// What they have to save; none where settings stay as they are.
    min_saving: Option<f64>,
}

impl Remedied<'_> {
    fn of(self, family: &FamilyFindings) -> Option<Remedy> {
        family.remedy(self.limits, self.min_saving?)
    }
}

/// What the keys came to.
struct Harvest {
    families: Vec<Gathered>,
    others: Vec<(Template, u64)>,
    folded: Vec<Folded>,
    /// How many keys expire.
    expiring: u64,
}

/// What is known of the keys besides their families, where templates were given.
struct Asked {
    model: Model,
    /// Whether SCAN goes over one slot of a cluster after the other.
    by_slot: bool,
    /// Of a cluster.
    slots: Option<SlotTally>,
    expiring: u64,
}

impl Gathering {
    fn new(templates: &[Template], model: &Model, stored: Option<&Layout>) -> Self {
        if templates.is_empty() {
            Self::Found(Box::new(survey::Survey::new(model.clone()).over(stored.cloned())))
        } else {
            let slots = model.is_in_cluster_mode().then(SlotTally::default);
            let asked = Asked { model: model.clone(), by_slot: model.has_tables_by_slot(), slots, expiring: 0 };
            Self::Asked(templates.iter().cloned().map(Growing::new).collect(), Box::new(asked))
        }
    }

    fn observe(&mut self, database: u32, observation: &Observation) {
        match self {
            Self::Found(survey) => survey.observe(database, observation),
            Self::Asked(families, asked) => {
                asked.expiring += u64::from(observation.has_expiry);
                if let Some(slots) = &mut asked.slots {
                    slots.add(&observation.key, observation.has_expiry);
                }
                offer(families, database, observation, &asked.model);
            }
        }
    }

    fn finish(self, seen: u64, total: u64, remedied: Remedied<'_>, notes: &mut Vec<String>) -> Harvest {
        match self {
            Self::Found(survey) => {
                let survey::Findings { families, folded, hot_slots, expiring, .. } = survey.finish(total);
                notes.extend(slot_tally::notes(&hot_slots));
                let of = |is_unread: bool| -> f64 {
                    let such = families.iter().filter(|family| is_unread_collection(family) == is_unread);
                    such.map(|family| family.keys.value - placeable(family)).sum()
                };
                let others = of(false);
                if others >= 0.5 {
                    notes.push(format!(
                        "{} keys of other types than strings, sets and hashes stay as they are",
                        decimals(others, 0)
                    ));
                }
                let unread = of(true);
                if unread >= 0.5 {
                    notes.push(format!(
                        "{} sets and hashes stay as they are: of their families at least a half takes more than {} each and was not read, or \
                         there are keys of several types",
                        decimals(unread, 0),
                        size(READ_WHOLE_BYTES)
                    ));
                }
                notes.extend(families.iter().filter_map(|family| unplaced(family, remedied)));
                let others = families.iter().filter_map(other).collect();
                let families = families.into_iter().filter_map(|family| found(family, remedied)).collect();
                Harvest { families, others, folded, expiring }
            }
            Self::Asked(families, asked) => {
                let share = seen as f64 / total as f64;
                let hot_slots = asked.slots.map(|slots| slots.hot_slots(seen < total)).unwrap_or_default();
                notes.extend(slot_tally::notes(&hot_slots));
                let families = families.into_iter().filter_map(|family| family.finish(share, asked.by_slot));
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
                let expiring = (asked.expiring as f64 / share).round() as u64;
                Harvest { families: families.collect(), others: Vec::new(), folded: Vec::new(), expiring }
            }
        }
    }
}

/// How many of a family's keys a layout could place: strings, or the sets or hashes that nearly all are.
fn placeable(family: &FamilyFindings) -> f64 {
    let collection = family.collection();
    let is_placed = |kind: Kind| match collection {
        Some(collection) => kind.collection() == Some(collection),
        None => kind == Kind::String,
    };
    let stored = &family.summary.stored;
    let placed: u64 = stored.iter().filter(|((kind, _), _)| is_placed(*kind)).map(|(_, keys)| keys).sum();
    family.keys.value * placed as f64 / family.summary.keys.max(1) as f64
}

/// Whether they are sets or hashes of which too little is known, or beside others.
fn is_unread_collection(family: &FamilyFindings) -> bool {
    family.summary.kind().collection().is_some() && family.collection().is_none()
}

/// A family of which a layout could place nothing.
fn other(family: &FamilyFindings) -> Option<(Template, u64)> {
    let template = family.template.clone().filter(|template| !is_own(template))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
    let keys = family.keys.value.round() as u64;
    (placeable(family) < 0.5).then_some((template, keys))
}

/// Whether keyfold itself has keys of such names.
fn is_own(template: &Template) -> bool {
    let prefix = template.literal_prefix();
    prefix.first() == Some(&DATA_PREFIX) || prefix.starts_with(ADMINISTRATION_PREFIX)
}

/// What settings of the server save for a family that no layout places.
fn unplaced(family: &FamilyFindings, remedied: Remedied<'_>) -> Option<String> {
    let remedy = remedied.of(family).filter(|_| placeable(family) < 0.5)?;
    Some(format!(
        "{} stays as it is. {}: {} instead of {}. {REWRITTEN}",
        family.name,
        remedy.describe(),
        bytes(remedy.bytes),
        bytes(family.bytes.value)
    ))
}

/// A family that a layout could place; none for single keys, other types, and keyfold's own keys.
fn found(family: FamilyFindings, remedied: Remedied<'_>) -> Option<Gathered> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
    let keys = placeable(&family).round() as u64;
    let (collection, remedy, hand_made) = (family.collection(), remedied.of(&family), family.hand_made());
    let FamilyFindings { template, sample, even, blocks, kept, within, slots_seen, .. } = family;
    let template = template.filter(|_| keys > 0 && !sample.is_empty())?;
    let codings = Vec::new();
    (!is_own(&template)).then_some(Gathered {
        template,
        collection,
        keys,
        sample,
        even,
        blocks,
        kept,
        within,
        slots_seen,
        codings,
        remedy,
        hand_made,
    })
}

fn offer(families: &mut [Growing], database: u32, observation: &Observation, model: &Model) {
    let Observation { key, kind, content, has_expiry, .. } = observation;
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
            let blocks = [(&mut family.sample, block), (&mut family.even, Block::of_bytes(key))];
            if let Content::String(value) = content {
                family.strings += 1;
                for (sample, block) in blocks {
                    sample.offer(block, (database, key), *value, *has_expiry);
                }
            } else if let (Some(kind), Some((packed, in_parts))) =
                (kind.collection(), family.parts.folded(model, observation))
            {
                *family.collections.entry(kind).or_default() += 1;
                let plain = survey::bytes_of(model, observation);
                let bytes = PlainAndPacked { plain, packed, in_parts };
                for (sample, block) in blocks {
                    sample.offer_collection(block, (database, key), bytes, *has_expiry);
                }
            }
            return;
        }
    }
}

/// A family while the walk goes on.
struct Growing {
    template: Template,
    blocks: Blocks,
    strings: u64,
    /// Sets or hashes, by type.
    collections: BTreeMap<CollectionKind, u64>,
    parts: InParts,
    sample: BlockSample,
    even: BlockSample,
}

impl Growing {
    fn new(template: Template) -> Self {
        let int = template.placeholders().iter().position(|part| part.kind.is_int());
        let blocks = int.map_or(Blocks::Keys, Blocks::Ids);
        let (sample, even) = (BlockSample::new(SAMPLE_BYTES), BlockSample::new(EVEN_BYTES));
        let (collections, parts) = (BTreeMap::new(), InParts::default());
        Self { template, blocks, strings: 0, collections, parts, sample, even }
    }

    /// The family, where `share` of the server's keys was seen, `by_slot` or one by one; none where no key was. Of keys of
    /// several types it is those of the most frequent one.
    fn finish(self, share: f64, by_slot: bool) -> Option<Gathered> {
        let Self { template, blocks, strings, collections, sample, even, .. } = self;
        let most = collections.iter().max_by_key(|(_, keys)| **keys).filter(|(_, keys)| **keys > strings);
        let (collection, keys) = most.map_or((None, strings), |(kind, keys)| (Some(*kind), *keys));
        // Which of sets and hashes a sampled key is, the sample doesn't say.
        if collection.is_some() && collections.len() > 1 {
            return None;
        }
        let survey::Shares { kept, within, slots_seen } = survey::shares(&sample, share, by_slot);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
        let keys = (keys as f64 / share).round() as u64;
        let (mut sample, mut even) = (sample.into_keys(), even.into_keys());
        for keys in [&mut sample, &mut even] {
            keys.retain(|sampled| sampled.plain_bytes.is_some() == collection.is_some());
        }
        (keys > 0).then_some(Gathered {
            template,
            collection,
            keys,
            sample,
            even,
            blocks,
            kept,
            within,
            slots_seen,
            codings: Vec::new(),
            remedy: None,
            hand_made: None,
        })
    }
}
