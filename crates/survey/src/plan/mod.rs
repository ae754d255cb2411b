//! From the choices for single families to one layout: what goes together, what the server has already, and the
//! file that says why.
//!
//! Families are taken in, those that save the most first, as long as the core's own check of layouts accepts them.
//! A family that is left as it is needs a namespace only where another one would have its keys: then it is `plain`.

#[cfg(test)]
mod tests;
mod text;

use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Layout, LayoutError, LayoutFile, Namespace, Problem};
use keyfold_core::memory::{Keyspace, Model};
use keyfold_core::template::{Automaton, Relation, Template, Templates};

use crate::choose::{self, Aims, Candidate, Choice, LEAST_KEYS, Sharing, Verdict};
use crate::eviction::Eviction;
use crate::population::Population;

pub use text::Heading;

/// Families of few keys that take less are not spoken of one by one.
const MINOR_BYTES: u64 = 1 << 20;
/// Entries to a bucket where many would have a server evict too much at once.
const FEW_ENTRIES: u64 = 16;

/// A family with what is to be done with it.
#[derive(Clone, Debug)]
pub struct Family {
    /// The shape of its keys.
    pub template: Template,
    /// How many there are.
    pub keys: u64,
    /// What to do with it.
    pub choice: Choice,
}

/// What becomes of a family in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has a namespace that folds or zips it.
    Namespace,
    /// It shares the buckets of one namespace with others; these are the templates of all of them.
    Shared(Templates),
    /// It is left as it is, and a namespace keeps a wider one from having its keys.
    KeptPlain,
    /// It is left as it is.
    Left,
    /// It is too small for a namespace, and its keys go with those of this wider template.
    GoesWith(String),
    /// It would be folded, but can't be beside others; this is why.
    Dropped(String),
}

impl Part {
    /// Whether the family has a namespace that folds or zips it, alone or with others.
    pub fn is_placed(&self) -> bool {
        matches!(self, Self::Namespace | Self::Shared(_))
    }
}

/// A layout, and how it came about.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The families, those that save the most first.
    pub families: Vec<(Family, Part)>,
    /// The layout that the server has already.
    pub stored: Option<Layout>,
    /// Keys that no layout places, most for their type, with how many there are, which a namespace keeps a wider one from having.
    pub kept_others: Vec<(Template, u64)>,
}

impl Plan {
    /// Puts families together, beside what the server has.
    pub fn new(mut families: Vec<Family>, stored: Option<Layout>) -> Self {
        families.sort_by_key(|family| std::cmp::Reverse(saved_at_most(&family.choice)));
        let mut plan = Self { families: Vec::new(), stored, kept_others: Vec::new() };
        for family in families {
            let part = plan.part(&family);
            plan.families.push((family, part));
        }
        plan.keep_plain();
        plan
    }

    fn part(&self, family: &Family) -> Part {
        if matches!(family.choice.verdict, Verdict::Leave(_)) {
            return Part::Left;
        }
        let around = self.stored.iter().flat_map(Layout::namespaces).find(|namespace| {
            let has = |template| matches!(relation(template, &family.template), Relation::Same | Relation::Around);
            namespace.keys.iter().any(has)
        });
        if let Some(namespace) = around {
            return Part::Dropped(had_already(namespace));
        }
        match self.check(Some(family)) {
            Ok(()) => Part::Namespace,
            Err(problem) => Part::Dropped(problem),
        }
    }

    /// Lets small families share buckets where that saves. `populations` has the keys of the families, in any order.
    pub fn share(&mut self, populations: &[Population<'_>], aims: &Aims) {
        let known =
            self.families.iter().enumerate().filter(|(_, (_, part))| matches!(part, Part::Namespace | Part::Left));
        let (indices, candidates): (Vec<usize>, Vec<Candidate<'_>>) = known
            .filter_map(|(index, (family, _))| {
                let population = populations.iter().find(|one| *one.template == family.template)?;
                Some((index, Candidate { population, alone: &family.choice }))
            })
            .unzip();
        let Some(Sharing { families, choices }) = choose::share(&candidates, aims) else { return };
        let templates = families.iter().map(|family| self.families[indices[*family]].0.template.clone());
        let Some(templates) = Templates::new(templates.collect()) else { return };
        let before = self.families.clone();
        for (family, choice) in families.into_iter().zip(choices) {
            let (family, part) = &mut self.families[indices[family]];
            (family.choice, *part) = (choice, Part::Shared(templates.clone()));
        }
        if self.check(None).is_err() {
            self.families = before;
            return;
        }
        self.keep_plain();
    }

    /// Whether the plan's namespaces, and one more family, make a layout that the server would take.
    fn check(&self, more: Option<&Family>) -> Result<(), String> {
        let mut text = text::namespaces(self);
        if let Some(family) = more {
            text::namespace(&mut text, family);
        }
        let file = self.parse(&text).map_err(|error| explain(error.problem))?;
        Layout::merge(self.stored.as_ref(), &file).map_err(|conflict| conflict.to_string())?;
        Ok(())
    }

    /// Reads a file that may have namespaces of the server's: under their secrets.
    fn parse(&self, text: &str) -> Result<LayoutFile, LayoutError> {
        let secrets = self.stored.as_ref().map(Layout::secrets).unwrap_or_default();
        LayoutFile::parse_with(text, &Kinds::default(), &secrets)
    }

    /// Gives `plain` namespaces to families whose keys another one would have, unless they are too small to matter.
    fn keep_plain(&mut self) {
        for index in 0..self.families.len() {
            let (family, part) = &self.families[index];
            let covers = |other: &&(Family, Part)| {
                other.1.is_placed() && matches!(relation(&other.0.template, &family.template), Relation::Around)
            };
            let Some((wider, _)) = self.families.iter().find(covers).filter(|_| *part == Part::Left) else { continue };
            if family.keys < LEAST_KEYS {
                self.families[index].1 = Part::GoesWith(wider.template.to_string());
                continue;
            }
            self.families[index].1 = Part::KeptPlain;
            if self.check(None).is_err() {
                self.families[index].1 = Part::Left;
            }
        }
    }

    /// Gives `plain` namespaces to keys that no layout places, where a wider family is: a move would come by them,
    /// and stay open for them.
    pub fn keep_others(&mut self, others: impl IntoIterator<Item = (Template, u64)>) {
        for (template, keys) in others {
            let covers = |(family, part): &(Family, Part)| {
                part.is_placed() && relation(&family.template, &template) == Relation::Around
            };
            if self.families.iter().any(covers) {
                self.kept_others.push((template, keys));
                if self.check(None).is_err() {
                    self.kept_others.pop();
                }
            }
        }
    }

    /// The families that are worth a word, and how many others there are, with their keys: few ones, which take
    /// little.
    pub fn notable(&self) -> (impl Iterator<Item = &(Family, Part)>, u64, u64) {
        let is_minor = |(family, part): &&(Family, Part)| {
            let left = matches!(part, Part::Left | Part::GoesWith(_));
            let is_small = family.keys < LEAST_KEYS && family.choice.bytes_now < MINOR_BYTES;
            left && is_small && family.choice.other_ways.is_empty()
        };
        let minor = || self.families.iter().filter(is_minor);
        let (families, keys) = (minor().count() as u64, minor().map(|(family, _)| family.keys).sum());
        (self.families.iter().filter(move |one| !is_minor(one)), families, keys)
    }

    /// The file, with what it says of itself.
    pub fn to_toml(&self, heading: &Heading) -> String {
        text::file(self, heading)
    }

    /// The layout that a server has once it took the file.
    pub fn layout(&self) -> Result<Layout, String> {
        let file = self.parse(&text::namespaces(self)).map_err(|error| error.problem.to_string())?;
        Layout::merge(self.stored.as_ref(), &file).map(|merged| merged.layout).map_err(|conflict| conflict.to_string())
    }

    /// What folding does to a server that evicts, and has evicted so many keys; empty where nothing is folded.
    pub fn eviction_notes(&self, eviction: Eviction, evicted_keys: u64) -> Vec<String> {
        let folded = || self.families.iter().filter(|(family, part)| is_folded(family, part)).map(|(family, _)| family);
        let (now, after) = folded()
            .fold((0, 0), |(now, after), family| (now + family.choice.bytes_now, after + family.choice.bytes_after));
        if after == 0 {
            return Vec::new();
        }
        let ratio = now as f64 / after as f64;
        let mut notes = vec![eviction.note(ratio)];
        let fewer = |family: &Family| family.choice.rule.with_few_entries(&family.template, family.keys, FEW_ENTRIES);
        let counted = folded().find_map(|family| Some((family, fewer(family)?)));
        if let Some((family, fewer)) = counted.filter(|_| evicted_keys > 0 && eviction.wants_few_entries(ratio)) {
            notes.push(format!(
                "it has evicted {evicted_keys} keys: where what is asked for won't fit when folded either, few entries \
                 lose less: for {FEW_ENTRIES} a bucket, `{}` for {}",
                fewer.line(&family.template),
                family.template
            ));
        }
        notes
    }

    /// What all families take now, and with this plan.
    pub fn total_bytes(&self, model: &Model) -> (u64, u64) {
        let (now, after) = self.keyspaces(model);
        (now.total_bytes(), after.total_bytes())
    }

    /// All families' keys now, and with this plan.
    pub fn keyspaces<'m>(&self, model: &'m Model) -> (Keyspace<'m>, Keyspace<'m>) {
        let (mut now, mut after) = (Keyspace::new(model), Keyspace::new(model));
        for (family, part) in &self.families {
            family.choice.now.add_to(&mut now);
            let footprint = if part.is_placed() { &family.choice.after } else { &family.choice.now };
            footprint.add_to(&mut after);
        }
        (now, after)
    }
}

/// Why a family needs no namespace of its own: the server's layout has one.
fn had_already(namespace: &Namespace) -> String {
    let keys = &namespace.keys;
    let had = format!("the server's layout has these keys already, as `{keys}`");
    if namespace.is_moving() {
        return format!("{had}, and a move of them is open, which `keyfold fold` or `keyfold unfold` ends");
    }
    match namespace.placement.is_plain() {
        true => had,
        false => format!("{had}; `keyfold fold` moves those that still lie under their own names"),
    }
}

/// What is wrong with a family's namespace beside the others, without the line of a file that nobody has seen.
fn explain(problem: Problem) -> String {
    match problem {
        Problem::Crossing { other, example, .. } => {
            let example = example.escape_ascii();
            format!("a key such as `{example}` is one of `{other}` too, and neither template is the more specific")
        }
        Problem::SameKeys { other, .. } => format!("`{other}` has the same keys"),
        problem => problem.to_string(),
    }
}

fn is_folded(family: &Family, part: &Part) -> bool {
    part.is_placed() && family.choice.verdict == Verdict::Fold
}

fn saved_at_most(choice: &Choice) -> u64 {
    choice.bytes_now.saturating_sub(choice.bytes_after)
}

/// What the first's keys are to the second's: `Around` where it has all of them and more.
fn relation(one: &Template, other: &Template) -> Relation {
    Automaton::of(one).relation(&Automaton::of(other))
}
