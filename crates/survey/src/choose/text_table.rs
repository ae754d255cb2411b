//! Whether a text table pays: trained on one part of the sample, judged on the other.
//!
//! ```text
//! sample ─▶ blocks to learn from ─▶ table ─┐
//!       └─▶ blocks held out ───────────────┴▶ the choice without it, and anew with it ─▶ saves enough? Take it
//! ```
//! A table changes how many entries fit into a size class of the allocator, and which lengths fields have. So all is
//! chosen anew with it, not only weighed. Where the sample has all keys, the table that is taken is trained on them all
//! and weighed on them all: what it saves is then no estimate.

use keyfold_core::placement::text_table::{Training, train};
use keyfold_core::placement::{Placement, TextTable};
use keyfold_core::template::Template;

use super::folding::Folding;
use super::members::{self, Member};
use super::{Aims, Choice, LEAST_KEYS, Verdict, choose_in, predict, report, saving};
use crate::codec::Coding;
use crate::population::{Population, SampledKey};

/// More text to learn from brings less than a hundredth.
const TRAINING_BYTES: usize = 128 << 10;
/// At least half of the blocks are held out.
const LEARNED_SHARE: f64 = 0.5;
/// Of what keys take in buckets, a table has to save so much: it makes fields unreadable to people.
const LEAST_SAVING: f64 = 0.03;
/// The layout lies in the server once, in base64, and its string may have as much spare room.
const STORED_BYTES_PER_BYTE: f64 = 2.0 * 4.0 / 3.0;

/// The choice with a text table, where that is the better one; else `without`.
pub(super) fn choose(population: &Population<'_>, aims: &Aims, coding: Option<&Coding>, without: Choice) -> Choice {
    let with = Trial::new(population, aims, coding, &without).and_then(|trial| trial.choose());
    match with {
        Some((with, saved)) => noted(population.template, with, saved, &without),
        None => without,
    }
}

/// One family, to be tried with a table.
struct Trial<'a, 'p> {
    population: &'a Population<'p>,
    aims: &'a Aims,
    coding: Option<&'a Coding>,
    without: &'a Choice,
    members: Vec<Member<'p>>,
    /// One whose fields hold the text to pack.
    placement: Placement,
    /// The share of the keys that is enough to learn from.
    enough: f64,
}

impl<'a, 'p> Trial<'a, 'p> {
    /// None where keys leave no text.
    fn new(
        population: &'a Population<'p>,
        aims: &'a Aims,
        coding: Option<&'a Coding>,
        without: &'a Choice,
    ) -> Option<Self> {
        let members = members::members(population, coding);
        let placement = standing_for(population, without, aims.by_slot)?;
        let text_bytes: usize = texts(&members, &placement).map(|text| text.len()).sum();
        let enough = (TRAINING_BYTES as f64 / text_bytes.max(1) as f64).min(1.0);
        (text_bytes > 0 && population.keys >= LEAST_KEYS).then_some(Self {
            population,
            aims,
            coding,
            without,
            members,
            placement,
            enough,
        })
    }

    /// The choice and what the table saves; none where that is too little.
    fn choose(&self) -> Option<(Choice, f64)> {
        let (learned, held_out) = members::split(self.population, &self.members, self.enough.min(LEARNED_SHARE));
        let sample: Vec<SampledKey> = held_out.members.iter().map(Member::sampled).collect();
        if (sample.len() as u64) < LEAST_KEYS {
            return None;
        }
        let table = self.trained(&learned.members)?;
        let judged = Population { sample: &sample, kept: held_out.kept, ..*self.population };
        let with = choose_in(&judged, self.aims, self.coding, Some(&table));
        let before_bytes = match self.without.verdict {
            Verdict::Fold => {
                predict(&judged, &self.without.rule, self.aims, self.coding).after.total_bytes(&self.aims.model)
            }
            Verdict::Zip | Verdict::Leave(_) => self.without.bytes_after,
        };
        let saved = saved(before_bytes, &with, &table)?;
        if self.members.len() as u64 == self.population.keys { self.choose_on_all(table) } else { Some((with, saved)) }
    }

    /// The same where all keys are known.
    fn choose_on_all(&self, table: TextTable) -> Option<(Choice, f64)> {
        let table = if self.enough > LEARNED_SHARE {
            self.trained(&members::split(self.population, &self.members, self.enough).0.members)?
        } else {
            table
        };
        let with = choose_in(self.population, self.aims, self.coding, Some(&table));
        let saved = saved(self.without.bytes_after, &with, &table)?;
        Some((with, saved))
    }

    fn trained(&self, members: &[Member<'_>]) -> Option<TextTable> {
        let samples: Vec<_> = texts(members, &self.placement).collect();
        train(&samples, Training { weight: self.population.keys as f64 / samples.len().max(1) as f64 })
    }
}

/// The placement whose fields the table is trained on: as many texts are left by all others of its kind.
fn standing_for(population: &Population<'_>, without: &Choice, by_slot: bool) -> Option<Placement> {
    match without.verdict {
        Verdict::Fold => Some(without.rule.placement.clone()),
        Verdict::Zip | Verdict::Leave(_) => Folding::Count.placement_of(population, 2, by_slot),
    }
}

fn texts<'m>(members: &'m [Member<'_>], placement: &'m Placement) -> impl Iterator<Item = Vec<u8>> + 'm {
    members.iter().filter_map(|member| placement.text_left(&member.parts))
}

/// The share that the table saves of what the best without it takes; none where that is not enough.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand bytes")]
fn saved(before_bytes: u64, with: &Choice, table: &TextTable) -> Option<f64> {
    if with.verdict != Verdict::Fold || with.rule.placement.text_table().is_none() {
        return None;
    }
    let stored_bytes = (table.to_bytes().len() as f64 * STORED_BYTES_PER_BYTE) as u64;
    Some(saving(before_bytes, with.bytes_after + stored_bytes)).filter(|saved| *saved >= LEAST_SAVING)
}

/// The choice with what is to be known of its table.
fn noted(template: &Template, mut with: Choice, saved: f64, without: &Choice) -> Choice {
    // What was said of codecs was weighed without the table, and holds with it.
    with.codec.clone_from(&without.codec);
    with.compressible.clone_from(&without.compressible);
    let codecs = without.alternatives.iter().filter(|other| other.what.starts_with("codec = "));
    with.alternatives.extend(codecs.cloned());
    if without.verdict == Verdict::Fold {
        with.alternatives.insert(0, report::unpacked(&with, without, template));
    }
    if let Some(table) = with.rule.placement.text_table() {
        let (symbols, bytes, percent) = (table.symbols().len(), table.to_bytes().len(), saved * 100.0);
        with.notes.push(format!(
            "The text in fields is packed by a table of {symbols} symbols ({bytes} bytes), trained on a part of the \
             keys: with it all takes {percent:.0} % less than with the best without it"
        ));
    }
    with
}
