//! A file against the layout in use.
//!
//! What would move keys that are already folded is refused here: places follow from the template, the
//! placement and the field limit, and so these may change only by moving the data.

use super::conflict::{Conflict, LayoutConflict};
use super::file::{FileNamespace, LayoutFile};
use super::naming::same_places;
use super::overlap::hashes_in_the_way;
use super::overlap::same_names;
use super::{Epoch, Layout, Namespace, NamespaceIndex};
use crate::template::{Automaton, Relation};

/// What comes of bringing a file to the layout in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The layout to use: of the next epoch where anything differs, and otherwise the one in use.
    pub layout: Layout,
    /// The namespaces that are new.
    pub added: Vec<NamespaceIndex>,
    /// The namespaces that differ in what may change at any time.
    pub changed: Vec<NamespaceIndex>,
    /// The namespaces that are as they were.
    pub unchanged: Vec<NamespaceIndex>,
}

const PLACES: &str =
    "folded keys would be looked for in other places; write it as in use, or move them with `keyfold fold`";
const MISSING: &str = "its folded keys would be lost from sight; keep the namespace, or `keyfold unfold` it first";
pub(super) const TAKEN: &str = "folded keys would be looked for in other places; unfold the wider namespace first";
const REGROUPED: &str = "templates come to share buckets, or cease to, only by way of plain keys; `keyfold unfold` the namespaces in use first, and then fold as the file says";

impl LayoutFile {
    /// The file alone: epoch 1.
    pub fn into_layout(self) -> Layout {
        join(&Layout::default(), &self).layout
    }
}

impl Layout {
    /// Brings `file` to a server whose layout is `stored`, or that has none.
    ///
    /// Namespaces are the same where their templates split every key alike; the names of placeholders may
    /// change, as may `value_limit` and `codec`. The epoch grows only where anything differs.
    pub fn merge(stored: Option<&Self>, file: &LayoutFile) -> Result<Merged, LayoutConflict> {
        let empty = Self::default();
        let stored = stored.unwrap_or(&empty);
        let mut conflicts = conflicts(stored, file);
        if conflicts.is_empty() {
            let merged = join(stored, file);
            conflicts = hashes_in_the_way(&merged.layout.namespaces);
            conflicts.extend(same_names(&merged.layout.namespaces));
            if conflicts.is_empty() {
                return Ok(merged);
            }
        }
        Err(LayoutConflict { epoch: stored.epoch(), conflicts })
    }
}

pub(super) fn in_file<'f>(file: &'f LayoutFile, namespace: &Namespace) -> Option<&'f FileNamespace> {
    file.namespaces.iter().find(|wanted| wanted.keys.same_shape(&namespace.keys))
}

fn conflicts(stored: &Layout, file: &LayoutFile) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for namespace in &stored.namespaces {
        let mut conflict = |in_use: String, in_file: String, advice| {
            conflicts.push(Conflict { keys: namespace.keys.to_string(), in_use, in_file, advice });
        };
        let placement = namespace.line();
        let Some(wanted) = in_file(file, namespace) else {
            conflict(placement, "(nothing)".to_owned(), MISSING);
            continue;
        };
        if wanted.placement != namespace.placement {
            conflict(placement, wanted.line(), PLACES);
        }
        let limits = [namespace.field_limit, wanted.field_limit];
        if !same_places((&namespace.placement, limits[0]), (&namespace.placement, limits[1])) {
            let line = |limit| format!("field_limit = {limit}");
            conflict(line(limits[0]), line(limits[1]), PLACES);
        }
    }
    for wanted in new_namespaces(stored, file) {
        conflicts.extend(taken_keys(stored, wanted));
    }
    conflicts
}

/// The conflict of a new namespace that would take keys from another: from a wider one, which has them folded in its own
/// places, or from one that has them alone or together with others.
pub(super) fn taken_keys(stored: &Layout, wanted: &FileNamespace) -> Option<Conflict> {
    wanted.keys.iter().find_map(|template| {
        let automaton = Automaton::of(template);
        let others = stored.namespaces.iter().flat_map(|old| old.keys.iter().map(move |theirs| (old, theirs)));
        others.into_iter().find_map(|(old, theirs)| {
            let theirs = Automaton::of(theirs);
            let advice = match automaton.relation(&theirs) {
                // Also while they are on their way out of these places.
                Relation::Within if old.rules().any(|(placement, _)| !placement.is_plain()) => TAKEN,
                Relation::Same => REGROUPED,
                _ => return None,
            };
            let example = automaton.shared(&theirs)?.escape_ascii().to_string();
            Some(Conflict {
                keys: wanted.keys.to_string(),
                in_use: format!("`{example}` is a key of `{}`: {}", old.keys, old.line()),
                in_file: format!("a new namespace has it: {}", wanted.line()),
                advice,
            })
        })
    })
}

fn new_namespaces<'f>(stored: &'f Layout, file: &'f LayoutFile) -> impl Iterator<Item = &'f FileNamespace> {
    let known = |wanted: &FileNamespace| stored.namespaces.iter().any(|old| old.keys.same_shape(&wanted.keys));
    file.namespaces.iter().filter(move |wanted| !known(wanted))
}

/// Joins what has no conflict.
fn join(stored: &Layout, file: &LayoutFile) -> Merged {
    let (mut added, mut changed, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
    let mut namespaces = Vec::new();
    for (index, old) in stored.iter() {
        let new = in_file(file, old).map_or_else(
            || old.clone(),
            |wanted| Namespace { former: old.former.clone(), ..wanted.with_stem(old.stem, Some(old)) },
        );
        if new == *old { &mut unchanged } else { &mut changed }.push(index);
        namespaces.push(new);
    }
    let mut generations = stored.generations.clone();
    for wanted in new_namespaces(stored, file) {
        let stem = generations.take(&wanted.keys, &wanted.placement, wanted.field_limit);
        added.push(NamespaceIndex(namespaces.len()));
        namespaces.push(wanted.with_stem(stem, None));
    }
    let differs = stored.epoch() == Epoch(0) || !added.is_empty() || !changed.is_empty();
    let revision = if differs { stored.revision.next() } else { stored.revision };
    let layout = Layout::new(revision, generations, namespaces).with_cache_after(file.cache, stored);
    Merged { layout, added, changed, unchanged }
}
