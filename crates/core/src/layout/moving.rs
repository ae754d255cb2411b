//! A namespace between two placements: how a move begins, turns round and ends.
//!
//! ```text
//! settled as A ──▶ moving, from A to B ──▶ settled as B
//!                        │    ▲
//!                        ▼    │
//!                  moving, from B to A
//! ```
//! Each arrow is an epoch of its own. *Plain* is a placement too: a namespace that is folded for the first time
//! moves from plain, and one that is unfolded moves to it. While it moves, every key lies in one of two places;
//! so turning round only says which of them is the new one. Handmade hashes are a way in only: keys move out of
//! them, and such a move can't be turned round.

use super::merge::{Conflict, LayoutConflict, in_file, taken_keys, used_id};
use super::overlap::hashes_in_the_way;
use super::{Epoch, FileNamespace, Layout, LayoutFile, Namespace, NamespaceId};
use crate::placement::{Handmade, Placement};
use crate::template::{Automaton, Relation, Template};

/// Where the keys of a namespace lay before, while they are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// The number in the physical names there; of no use where they are plain. Where they are an application's own
    /// hashes it is a number that no name has.
    pub id: NamespaceId,
    /// The rule that gave them their places.
    pub placement: Placement,
    /// Field bytes over which a key stayed plain.
    pub field_limit: usize,
}

/// A move that can begin, or go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The layout to move under: the next epoch where anything differs, and otherwise the one in use.
    pub layout: Layout,
    /// The namespaces that move under it, by their ids there.
    pub moving: Vec<NamespaceId>,
}

const ONE_WAY: &str = "its keys are being moved out of hashes that an application made itself, and never back into them; finish that with `keyfold fold` first";
const ELSEWHERE: &str = "its keys are placed otherwise already; bring them where the file says with `keyfold fold`, and then move the hashes' keys to them with --from";
const BUSY: &str = "its keys are being moved to another placement; finish that with `keyfold fold`, or take it back with `keyfold unfold`";

impl Namespace {
    /// Whether its keys lie in two places at present.
    pub fn is_moving(&self) -> bool {
        self.former.is_some()
    }

    /// The rule of the handmade hashes that it is moved out of, where it is.
    pub fn handmade(&self) -> Option<&Handmade> {
        match &self.former.as_ref()?.placement {
            Placement::Handmade(handmade) => Some(handmade),
            _ => None,
        }
    }

    fn as_former(&self) -> Former {
        Former { id: self.id, placement: self.placement.clone(), field_limit: self.field_limit }
    }

    /// Whether its keys lie, or will lie, where `wanted` says.
    fn leads_to(&self, wanted: &FileNamespace) -> bool {
        self.placement == wanted.placement
            && (self.field_limit == wanted.field_limit || self.placement == Placement::Plain)
    }

    /// The other way round: what was new is old.
    fn turned(&self, former: &Former) -> Self {
        let Former { id, placement, field_limit } = former.clone();
        Self { id, placement, field_limit, former: Some(self.as_former()), ..self.clone() }
    }
}

impl Former {
    fn leads_to(&self, wanted: &FileNamespace) -> bool {
        self.placement == wanted.placement
            && (self.field_limit == wanted.field_limit || self.placement == Placement::Plain)
    }
}

impl Layout {
    /// The move that brings the namespaces of `file` where the file says. Namespaces that the file doesn't name
    /// stay as they are; a move that has begun goes on, or turns round.
    ///
    /// # Errors
    /// What can't be, as in [`Layout::merge`]; a namespace that is on its way to somewhere else.
    pub fn plan_fold(&self, file: &LayoutFile) -> Result<Move, LayoutConflict> {
        let mut plan = Planner::with_ids_of(self, file);
        for wanted in &file.namespaces {
            plan.bring(wanted, None);
        }
        plan.finish(self)
    }

    /// The move that brings keys which lie in handmade hashes where the file says: `from` has the rule of each of
    /// the file's namespaces.
    ///
    /// # Errors
    /// As [`Self::plan_fold`]; hashes whose names are keys, or of another namespace's hashes too.
    pub fn plan_fold_from(&self, file: &LayoutFile, from: &[Handmade]) -> Result<Move, LayoutConflict> {
        let mut plan = Planner::with_ids_of(self, file);
        for (wanted, from) in file.namespaces.iter().zip(from) {
            plan.bring(wanted, Some(from));
        }
        plan.finish(self)
    }

    /// The move that makes the keys of these namespaces plain again.
    ///
    /// # Errors
    /// A namespace that is on its way between two folded placements.
    pub fn plan_unfold(&self, ids: &[NamespaceId]) -> Result<Move, LayoutConflict> {
        let mut plan = Planner::new(self);
        for namespace in self.namespaces.iter().filter(|namespace| ids.contains(&namespace.id)) {
            let wanted = FileNamespace {
                id: None,
                template: namespace.template.clone(),
                placement: Placement::Plain,
                value_limit: namespace.value_limit,
                field_limit: namespace.field_limit,
                codec: namespace.codec.clone(),
                codec_waits: false,
            };
            plan.bring(&wanted, None);
        }
        plan.finish(self)
    }

    /// The namespaces of `file` that are settled as folded: clients look for their keys in buckets alone, and those
    /// that somebody wrote past keyfold are hidden.
    pub fn settled_in(&self, file: &LayoutFile) -> Vec<NamespaceId> {
        let is_settled = |namespace: &&Namespace| {
            namespace.placement != Placement::Plain && !namespace.is_moving() && namespace.in_file(file).is_some()
        };
        self.namespaces.iter().filter(is_settled).map(|namespace| namespace.id).collect()
    }

    /// The layout once the namespaces with these ids have moved: they are settled. One that is plain is left out,
    /// unless it keeps its keys from a wider one.
    #[must_use]
    pub fn settled(&self, ids: &[NamespaceId]) -> Self {
        let mut namespaces = self.namespaces.clone();
        for namespace in namespaces.iter_mut().filter(|namespace| ids.contains(&namespace.id)) {
            namespace.former = None;
        }
        let all: Vec<Template> = namespaces.iter().map(|namespace| namespace.template.clone()).collect();
        namespaces.retain(|namespace| {
            let unfolded = ids.contains(&namespace.id) && namespace.placement == Placement::Plain;
            !unfolded || all.iter().any(|wider| is_within(&namespace.template, wider))
        });
        Self::new(self.epoch.next(), self.next_id, namespaces)
    }

    /// Whether every key that may lie somewhere under `before` is looked for there under this layout too, so that
    /// clients may go from the one to the other.
    ///
    /// # Errors
    /// What would be lost from sight.
    pub fn follows(&self, before: &Self) -> Result<(), String> {
        for old in before.namespaces.iter().filter(|old| old.placement != Placement::Plain) {
            let template = &old.template;
            let Some(new) = self.namespaces.iter().find(|new| new.template.same_shape(template)) else {
                return Err(format!("keys of {template} are folded, and the namespace is gone"));
            };
            let here = (new.id, &new.placement, new.field_limit);
            let there = new.former.as_ref().map(|former| (former.id, &former.placement, former.field_limit));
            let rule = (old.id, &old.placement, old.field_limit);
            if here != rule && there != Some(rule) {
                return Err(format!("keys of {template} that are folded now would lie elsewhere"));
            }
        }
        Ok(())
    }

    /// The namespaces that are moving.
    pub fn moving(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter().filter(|namespace| namespace.is_moving())
    }
}

impl Move {
    /// The same with these namespaces, which are settled as folded, opened again: their keys are looked for under
    /// their own names too, and are moved from there. `before` is the layout in use.
    #[must_use]
    pub fn reopen(self, before: &Layout, ids: &[NamespaceId]) -> Self {
        let Self { layout, mut moving } = self;
        let mut namespaces = layout.namespaces;
        for namespace in namespaces.iter_mut().filter(|namespace| ids.contains(&namespace.id)) {
            namespace.former = Some(Former { placement: Placement::Plain, ..namespace.as_former() });
            moving.push(namespace.id);
        }
        let epoch = if namespaces == before.namespaces { before.epoch } else { before.epoch.next() };
        Self { layout: Layout::new(epoch, layout.next_id, namespaces), moving }
    }
}

fn is_within(template: &Template, wider: &Template) -> bool {
    !template.same_shape(wider) && Automaton::of(template).relation(&Automaton::of(wider)) == Relation::Within
}

impl Epoch {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Namespaces as they come to be, and what stands against it.
struct Planner<'l> {
    before: &'l Layout,
    namespaces: Vec<Namespace>,
    next_id: NamespaceId,
    moving: Vec<NamespaceId>,
    conflicts: Vec<Conflict>,
}

impl<'l> Planner<'l> {
    fn new(before: &'l Layout) -> Self {
        let (namespaces, next_id) = (before.namespaces.clone(), before.next_id);
        Self { before, namespaces, next_id, moving: Vec::new(), conflicts: Vec::new() }
    }

    /// Ids that the file gives are taken first, so that none of them is given to another.
    fn with_ids_of(before: &'l Layout, file: &LayoutFile) -> Self {
        let mut plan = Self::new(before);
        let given = file.namespaces.iter().filter_map(|wanted| wanted.id).max();
        plan.next_id = plan.next_id.max(given.map_or(NamespaceId(0), |id| NamespaceId(id.0.saturating_add(1))));
        plan
    }

    fn give_id(&mut self, wanted: Option<NamespaceId>) -> NamespaceId {
        let id = wanted.unwrap_or(self.next_id);
        self.next_id = self.next_id.max(NamespaceId(id.0.saturating_add(1)));
        id
    }

    /// Where keys lay that come out of handmade hashes: under a number of its own, so that none of keyfold's names,
    /// such as those of spilled values beside the new places, is taken for one from before.
    fn former_of(&mut self, handmade: Placement, field_limit: usize) -> Former {
        Former { id: self.give_id(None), placement: handmade, field_limit }
    }

    fn bring(&mut self, wanted: &FileNamespace, from: Option<&Handmade>) {
        let known = self.namespaces.iter().position(|namespace| namespace.template.same_shape(&wanted.template));
        let from = from.map(|handmade| Placement::Handmade(Box::new(handmade.clone())));
        match known {
            Some(index) => self.change(index, wanted, from),
            None => self.add(wanted, from),
        }
    }

    /// A namespace that the layout doesn't have: its keys are plain, where nothing else is said.
    fn add(&mut self, wanted: &FileNamespace, from: Option<Placement>) {
        let refused = [used_id(self.before, wanted), taken_keys(self.before, wanted)];
        if refused.iter().any(Option::is_some) {
            return self.conflicts.extend(refused.into_iter().flatten());
        }
        let id = self.give_id(wanted.id);
        let mut namespace = wanted.with_id(id, None);
        let former = match from {
            Some(handmade) => self.former_of(handmade, wanted.field_limit),
            None => Former { id, placement: Placement::Plain, field_limit: wanted.field_limit },
        };
        if wanted.placement != former.placement {
            namespace.former = Some(former);
            self.moving.push(id);
        }
        self.namespaces.push(namespace);
    }

    fn change(&mut self, index: usize, wanted: &FileNamespace, from: Option<Placement>) {
        let known = self.namespaces[index].clone();
        let kept = |id: NamespaceId, former: Option<Former>| Namespace { former, ..wanted.with_id(id, Some(&known)) };
        let is_other = |former: &Former| from.as_ref().is_some_and(|from| *from != former.placement);
        let changed = match &known.former {
            None if from.is_some() && !known.leads_to(wanted) => {
                return self.conflicts.push(Conflict {
                    keys: known.template.to_string(),
                    in_use: known.placement.line(&known.template),
                    in_file: wanted.placement.line(&wanted.template),
                    advice: ELSEWHERE,
                });
            }
            None if from.is_some() => {
                let former = from.map(|handmade| self.former_of(handmade, known.field_limit));
                kept(known.id, former)
            }
            former if known.leads_to(wanted) && !former.as_ref().is_some_and(is_other) => {
                kept(known.id, former.clone())
            }
            Some(former) if former.leads_to(wanted) && from.is_none() => known.turned(former),
            Some(former) => {
                let route =
                    format!("{} to {}", former.placement.line(&known.template), known.placement.line(&known.template));
                return self.conflicts.push(Conflict {
                    keys: known.template.to_string(),
                    in_use: format!("moving from {route}"),
                    in_file: match &from {
                        Some(from) => format!("moving from {}", from.line(&wanted.template)),
                        None => wanted.placement.line(&wanted.template),
                    },
                    advice: if known.handmade().is_some() { ONE_WAY } else { BUSY },
                });
            }
            None => kept(self.give_id(None), Some(known.as_former())),
        };
        if changed.is_moving() {
            self.moving.push(changed.id);
        }
        self.namespaces[index] = changed;
    }

    fn finish(mut self, before: &Layout) -> Result<Move, LayoutConflict> {
        self.conflicts.extend(hashes_in_the_way(&self.namespaces));
        if !self.conflicts.is_empty() {
            return Err(LayoutConflict { epoch: before.epoch, conflicts: self.conflicts });
        }
        let epoch = if self.namespaces == before.namespaces { before.epoch } else { before.epoch.next() };
        Ok(Move { layout: Layout::new(epoch, self.next_id, self.namespaces), moving: self.moving })
    }
}

impl Namespace {
    /// The file's namespace that has the same keys.
    pub fn in_file<'f>(&self, file: &'f LayoutFile) -> Option<&'f FileNamespace> {
        in_file(file, self)
    }
}
