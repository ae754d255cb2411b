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

use super::conflict::{Conflict, LayoutConflict};
use super::former::Former;
use super::merge::{in_file, taken_keys};
use super::naming::{Generations, same_places};
use super::overlap::{hashes_in_the_way, same_names, shared_keys};
use super::{FileNamespace, Layout, LayoutFile, Namespace, NamespaceIndex};
use crate::collection::CollectionKind;
use crate::placement::name::{DATA_PREFIX, Stem};
use crate::placement::{Handmade, Placement};
use crate::template::{Automaton, Relation, Template, Templates};

/// A move that can begin, or go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The layout to move under: the next epoch where anything differs, and otherwise the one in use.
    pub layout: Layout,
    /// The namespaces that move under it.
    pub moving: Vec<NamespaceIndex>,
}

const ONE_WAY: &str = "its keys are being moved out of hashes that an application made itself, and never back into them; finish that with `keyfold fold` first";
const ELSEWHERE: &str = "its keys are placed otherwise already; bring them where the file says with `keyfold fold`, and then move the hashes' keys to them with --from";
const BUSY: &str = "its keys are being moved to another placement; finish that with `keyfold fold`, or take it back with `keyfold unfold`";

impl Namespace {
    /// Whether its keys lie in two places at present.
    pub fn is_moving(&self) -> bool {
        self.former.is_some()
    }

    /// Whether values are written without its codec, as that has learned nothing yet.
    pub fn is_untrained(&self) -> bool {
        !self.placement.is_plain() && !self.codec.is_none() && self.codecs.written().is_none()
    }

    /// Which collections its keys hold, where it isn't strings.
    pub fn collection(&self) -> Option<CollectionKind> {
        self.rules().find_map(|(placement, _)| placement.collection())
    }

    /// The rule of the handmade hashes that it is moved out of, where it is.
    pub fn handmade(&self) -> Option<&Handmade> {
        self.former.as_ref()?.placement.handmade()
    }

    fn as_former(&self) -> Former {
        Former { stem: self.stem, placement: self.placement.clone(), field_limit: self.field_limit, put_back: false }
    }

    /// The line of a layout file that says where its keys lie, for people.
    pub fn line(&self) -> String {
        self.placement.line(self.keys.first())
    }

    /// What the physical names of its keys begin with, where they have any.
    pub fn names(&self) -> Option<String> {
        self.placement.has_names().then(|| format!("{}{}", char::from(DATA_PREFIX), self.stem))
    }

    /// The placements in which its keys may lie, each with its stem. The one that keys are written to comes first.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&Placement, Stem)> {
        let former = self.former.as_ref().map(|former| (&former.placement, former.stem));
        std::iter::once((&self.placement, self.stem)).chain(former)
    }

    /// Whether its keys lie, or will lie, where `wanted` says.
    fn leads_to(&self, wanted: &FileNamespace) -> bool {
        same_places((&self.placement, self.field_limit), (&wanted.placement, wanted.field_limit))
    }

    /// The namespace with its move turned round: keys move back to where they came from.
    fn turned(&self, former: &Former) -> Self {
        let Former { stem, placement, field_limit, put_back: _ } = former.clone();
        Self { stem, placement, field_limit, former: Some(self.as_former()), ..self.clone() }
    }
}

impl Former {
    fn leads_to(&self, wanted: &FileNamespace) -> bool {
        same_places((&self.placement, self.field_limit), (&wanted.placement, wanted.field_limit))
    }
}

impl Layout {
    /// The move that brings the namespaces of `file` where the file says. Namespaces that the file doesn't name
    /// stay as they are; a move that has begun goes on, or turns round.
    ///
    /// # Errors
    /// What can't be, as in [`Layout::merge`]; a namespace that is on its way to somewhere else.
    pub fn plan_fold(&self, file: &LayoutFile) -> Result<Move, LayoutConflict> {
        let mut plan = Planner::new(self);
        for wanted in &file.namespaces {
            plan.bring(wanted, None);
        }
        let Move { layout, moving } = plan.finish(self)?;
        Ok(Move { layout: layout.with_cache_after(file.cache.or(self.cache), self), moving })
    }

    /// The move that brings keys which lie in handmade hashes where the file says: `from` has the rule of each of
    /// the file's namespaces.
    ///
    /// # Errors
    /// As [`Self::plan_fold`]; hashes whose names are keys, or of another namespace's hashes too.
    pub fn plan_fold_from(&self, file: &LayoutFile, from: &[Handmade]) -> Result<Move, LayoutConflict> {
        let mut plan = Planner::new(self);
        for (wanted, from) in file.namespaces.iter().zip(from) {
            plan.bring(wanted, Some(from));
        }
        plan.finish(self)
    }

    /// The move that makes the keys of these namespaces plain again.
    ///
    /// # Errors
    /// A namespace that is on its way between two folded placements.
    pub fn plan_unfold(&self, which: &[NamespaceIndex]) -> Result<Move, LayoutConflict> {
        let mut plan = Planner::new(self);
        for (_, namespace) in self.iter().filter(|(index, _)| which.contains(index)) {
            let wanted = FileNamespace {
                keys: namespace.keys.clone(),
                placement: Placement::plain(),
                value_limit: namespace.value_limit,
                field_limit: namespace.field_limit,
                codec: namespace.codec.clone(),
                codec_waits: false,
                evictable: namespace.evictable,
            };
            plan.bring(&wanted, None);
        }
        plan.finish(self)
    }

    /// The namespaces of `file` that are settled as folded: clients look for their keys in buckets alone, and those
    /// that somebody wrote past keyfold are hidden.
    pub fn settled_in(&self, file: &LayoutFile) -> Vec<NamespaceIndex> {
        let is_settled = |(_, namespace): &(NamespaceIndex, &Namespace)| {
            !namespace.placement.is_plain() && !namespace.is_moving() && namespace.in_file(file).is_some()
        };
        self.iter().filter(is_settled).map(|(index, _)| index).collect()
    }

    /// The layout once these namespaces have moved: they are settled. One that is plain is left out,
    /// unless it keeps its keys from a wider one.
    #[must_use]
    pub fn settled(&self, which: &[NamespaceIndex]) -> Self {
        let is_left_out = |index: NamespaceIndex, namespace: &Namespace| {
            let is_unfolded = which.contains(&index) && namespace.placement.is_plain();
            let keeps_from = |(index, wider): (NamespaceIndex, &Namespace)| {
                let has_places = !wider.placement.is_plain() || wider.is_moving() && !which.contains(&index);
                has_places && is_within(&namespace.keys, &wider.keys)
            };
            is_unfolded && !self.iter().any(keeps_from)
        };
        let kept = self.iter().filter(|(index, namespace)| !is_left_out(*index, namespace));
        let namespaces = kept.map(|(index, namespace)| {
            let former = namespace.former.clone().filter(|_| !which.contains(&index));
            Namespace { former, ..namespace.clone() }
        });
        Self::new(self.revision.next(), self.generations.clone(), namespaces.collect()).with_cache(self.cache)
    }

    /// Whether every key that may lie somewhere under `before` is looked for there under this layout too, so that
    /// clients may go from the one to the other.
    ///
    /// # Errors
    /// What would be lost from sight.
    pub fn follows(&self, before: &Self) -> Result<(), String> {
        for old in before.namespaces.iter().filter(|old| !old.placement.is_plain()) {
            let keys = &old.keys;
            let Some(new) = self.namespaces.iter().find(|new| new.keys.same_shape(keys)) else {
                return Err(format!("keys of {keys} are folded, and the namespace is gone"));
            };
            let is_kept = |stem: Stem, placement: &Placement, field_limit: usize| {
                stem == old.stem && same_places((placement, field_limit), (&old.placement, old.field_limit))
            };
            let is_former = |former: &Former| is_kept(former.stem, &former.placement, former.field_limit);
            if !is_kept(new.stem, &new.placement, new.field_limit) && !new.former.as_ref().is_some_and(is_former) {
                return Err(format!("keys of {keys} that are folded now would lie elsewhere"));
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
    pub fn reopen(self, before: &Layout, which: &[NamespaceIndex]) -> Self {
        let Self { layout, mut moving } = self;
        let (cache, mut namespaces) = (layout.cache, layout.namespaces);
        for index in which {
            let Some(namespace) = namespaces.get_mut(index.0) else { continue };
            namespace.former = Some(Former::plain(&namespace.keys, namespace.field_limit));
            moving.push(*index);
        }
        let layout = before.followed_by(layout.generations, namespaces).with_cache_after(cache, before);
        Self { layout, moving }
    }
}

/// Whether any of these templates lies within any of the others, which are another namespace's.
fn is_within(templates: &Templates, wider: &Templates) -> bool {
    let within =
        |one: &Template, other: &Template| Automaton::of(one).relation(&Automaton::of(other)) == Relation::Within;
    !templates.same_shape(wider) && templates.iter().any(|one| wider.iter().any(|other| within(one, other)))
}

/// A move while it is planned: the namespaces as they will be, and the conflicts found so far.
struct Planner<'l> {
    before: &'l Layout,
    namespaces: Vec<Namespace>,
    generations: Generations,
    moving: Vec<NamespaceIndex>,
    conflicts: Vec<Conflict>,
}

impl<'l> Planner<'l> {
    fn new(before: &'l Layout) -> Self {
        let (namespaces, generations) = (before.namespaces.clone(), before.generations.clone());
        Self { before, namespaces, generations, moving: Vec::new(), conflicts: Vec::new() }
    }

    /// The namespace as the file wants it, under names that nobody has used.
    fn named(&mut self, wanted: &FileNamespace, known: Option<&Namespace>) -> Namespace {
        let stem = self.generations.take(&wanted.keys, &wanted.placement, wanted.field_limit);
        wanted.with_stem(stem, known)
    }

    fn bring(&mut self, wanted: &FileNamespace, from: Option<&Handmade>) {
        let known = self.namespaces.iter().position(|namespace| namespace.keys.same_shape(&wanted.keys));
        let from = from.cloned().map(Placement::from);
        match known {
            Some(index) => self.change(index, wanted, from),
            None => self.add(wanted, from),
        }
    }

    /// Adds a namespace that the layout doesn't have. Its keys are plain so far, unless `from` says where they lie.
    fn add(&mut self, wanted: &FileNamespace, from: Option<Placement>) {
        if let Some(refused) = taken_keys(self.before, wanted) {
            return self.conflicts.push(refused);
        }
        let mut namespace = self.named(wanted, None);
        let former = from.unwrap_or_else(Placement::plain);
        if wanted.placement != former {
            namespace.former = Some(Former::nameless(&wanted.keys, former, wanted.field_limit));
            self.moving.push(NamespaceIndex(self.namespaces.len()));
        }
        self.namespaces.push(namespace);
    }

    fn change(&mut self, index: usize, wanted: &FileNamespace, from: Option<Placement>) {
        let known = self.namespaces[index].clone();
        let kept = |former: Option<Former>| Namespace { former, ..wanted.with_stem(known.stem, Some(&known)) };
        let is_other = |former: &Former| from.as_ref().is_some_and(|from| *from != former.placement);
        let changed = match &known.former {
            None if from.is_some() && !known.leads_to(wanted) => {
                return self.conflicts.push(Conflict {
                    keys: known.keys.to_string(),
                    in_use: known.line(),
                    in_file: wanted.line(),
                    advice: ELSEWHERE,
                });
            }
            None if from.is_some() => {
                kept(from.map(|handmade| Former::nameless(&known.keys, handmade, known.field_limit)))
            }
            former if known.leads_to(wanted) && !former.as_ref().is_some_and(is_other) => kept(former.clone()),
            Some(former) if former.leads_to(wanted) && from.is_none() => known.turned(former),
            Some(former) => {
                let route = format!("{} to {}", former.placement.line(known.keys.first()), known.line());
                return self.conflicts.push(Conflict {
                    keys: known.keys.to_string(),
                    in_use: format!("moving from {route}"),
                    in_file: match &from {
                        Some(from) => format!("moving from {}", from.line(wanted.keys.first())),
                        None => wanted.line(),
                    },
                    advice: if known.handmade().is_some() { ONE_WAY } else { BUSY },
                });
            }
            None => Namespace { former: Some(known.as_former()), ..self.named(wanted, Some(&known)) },
        };
        if changed.is_moving() {
            self.moving.push(NamespaceIndex(index));
        }
        self.namespaces[index] = changed;
    }

    fn finish(mut self, before: &Layout) -> Result<Move, LayoutConflict> {
        if self.conflicts.is_empty() {
            self.conflicts.extend(shared_keys(&self.namespaces));
        }
        self.conflicts.extend(hashes_in_the_way(&self.namespaces));
        self.conflicts.extend(same_names(&self.namespaces));
        if !self.conflicts.is_empty() {
            return Err(LayoutConflict { epoch: before.epoch(), conflicts: self.conflicts });
        }
        Ok(Move { layout: before.followed_by(self.generations, self.namespaces), moving: self.moving })
    }
}

impl Namespace {
    /// The file's namespace that has the same keys.
    pub fn in_file<'f>(&self, file: &'f LayoutFile) -> Option<&'f FileNamespace> {
        in_file(file, self)
    }
}
