//! A file against the layout in use.
//!
//! What would move keys that are already folded is refused here: places follow from the template, the
//! placement and the field limit, and so these may change only by moving the data.

use std::fmt;

use super::file::{FileNamespace, LayoutFile};
use super::overlap::hashes_in_the_way;
use super::{Epoch, Layout, Namespace, NamespaceId};
use crate::placement::Placement;
use crate::template::{Automaton, Relation};

/// A file and the layout in use, made one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The layout to use: of the next epoch where anything differs, and otherwise the one in use.
    pub layout: Layout,
    /// The namespaces that are new.
    pub added: Vec<NamespaceId>,
    /// The namespaces that differ in what may change at any time.
    pub changed: Vec<NamespaceId>,
    /// The namespaces that are as they were.
    pub unchanged: Vec<NamespaceId>,
}

/// A file that doesn't fit the layout in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutConflict {
    /// The epoch of the layout in use.
    pub epoch: Epoch,
    /// Every difference that can't be.
    pub conflicts: Vec<Conflict>,
}

/// One difference that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The namespace's template.
    pub keys: String,
    /// The line of the layout in use.
    pub in_use: String,
    /// The line of the file.
    pub in_file: String,
    /// Why it can't be, and what to do.
    pub advice: &'static str,
}

impl std::error::Error for LayoutConflict {}

impl fmt::Display for LayoutConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file does not fit the layout in use (epoch {}):", self.epoch)?;
        for conflict in &self.conflicts {
            let Conflict { keys, in_use, in_file, advice } = conflict;
            write!(f, "\n\n  {keys}\n    in use:  {in_use}\n    in file: {in_file}\n    {advice}")?;
        }
        Ok(())
    }
}

const PLACES: &str =
    "folded keys would be looked for in other places; write it as in use, or move them with `keyfold fold`";
const MISSING: &str = "its folded keys would be lost from sight; keep the namespace, or `keyfold unfold` it first";
pub(super) const TAKEN: &str = "folded keys would be looked for in other places; unfold the wider namespace first";
const OTHER_ID: &str = "an id is given once; write the one in use, or leave it out";
const USED_ID: &str = "ids are never given twice; leave it out to have the next one given";

impl LayoutFile {
    /// The file alone: epoch 1, ids from 0.
    pub fn into_layout(self) -> Layout {
        let start = Layout::new(Epoch(0), NamespaceId(0), Vec::new());
        join(&start, &self).layout
    }
}

impl Layout {
    /// Brings `file` to a server whose layout is `stored`, or that has none.
    ///
    /// Namespaces are the same where their templates split every key alike; the names of placeholders may
    /// change, as may `value_limit` and `codec`. Ids are kept, and new ones counted on from `next_id`. The
    /// epoch grows only where anything differs.
    pub fn merge(stored: Option<&Self>, file: &LayoutFile) -> Result<Merged, LayoutConflict> {
        let empty = Self::new(Epoch(0), NamespaceId(0), Vec::new());
        let stored = stored.unwrap_or(&empty);
        let mut conflicts = conflicts(stored, file);
        if conflicts.is_empty() {
            let merged = join(stored, file);
            conflicts = hashes_in_the_way(&merged.layout.namespaces);
            if conflicts.is_empty() {
                return Ok(merged);
            }
        }
        Err(LayoutConflict { epoch: stored.epoch, conflicts })
    }
}

pub(super) fn in_file<'f>(file: &'f LayoutFile, namespace: &Namespace) -> Option<&'f FileNamespace> {
    file.namespaces.iter().find(|wanted| wanted.template.same_shape(&namespace.template))
}

fn conflicts(stored: &Layout, file: &LayoutFile) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for namespace in &stored.namespaces {
        let template = &namespace.template;
        let mut conflict = |in_use: String, in_file: String, advice| {
            conflicts.push(Conflict { keys: template.to_string(), in_use, in_file, advice });
        };
        let placement = namespace.placement.line(template);
        let Some(wanted) = in_file(file, namespace) else {
            conflict(placement, "(nothing)".to_owned(), MISSING);
            continue;
        };
        if wanted.placement != namespace.placement {
            conflict(placement, wanted.placement.line(&wanted.template), PLACES);
        }
        if wanted.field_limit != namespace.field_limit {
            let line = |limit| format!("field_limit = {limit}");
            conflict(line(namespace.field_limit), line(wanted.field_limit), PLACES);
        }
        if let Some(id) = wanted.id.filter(|id| *id != namespace.id) {
            conflict(format!("id = {}", namespace.id), format!("id = {id}"), OTHER_ID);
        }
    }
    for wanted in new_namespaces(stored, file) {
        conflicts.extend(used_id(stored, wanted));
        conflicts.extend(taken_keys(stored, wanted));
    }
    conflicts
}

/// A new namespace with an id from the past.
pub(super) fn used_id(stored: &Layout, wanted: &FileNamespace) -> Option<Conflict> {
    let id = wanted.id.filter(|id| *id < stored.next_id)?;
    Some(Conflict {
        keys: wanted.template.to_string(),
        in_use: format!("next_id = {}", stored.next_id),
        in_file: format!("id = {id}"),
        advice: USED_ID,
    })
}

/// A new namespace that, as the more specific, would have keys which lie in the places of another.
pub(super) fn taken_keys(stored: &Layout, wanted: &FileNamespace) -> Option<Conflict> {
    let automaton = Automaton::of(&wanted.template);
    stored.namespaces.iter().filter(|old| old.placement != Placement::Plain).find_map(|old| {
        let theirs = Automaton::of(&old.template);
        if automaton.relation(&theirs) != Relation::Within {
            return None;
        }
        let example = automaton.shared(&theirs)?;
        Some(Conflict {
            keys: wanted.template.to_string(),
            in_use: format!("`{}` is folded as `{}`", example.escape_ascii(), old.template),
            in_file: format!("a new namespace has it: {}", wanted.placement.line(&wanted.template)),
            advice: TAKEN,
        })
    })
}

fn new_namespaces<'f>(stored: &'f Layout, file: &'f LayoutFile) -> impl Iterator<Item = &'f FileNamespace> {
    let known = |wanted: &FileNamespace| stored.namespaces.iter().any(|old| old.template.same_shape(&wanted.template));
    file.namespaces.iter().filter(move |wanted| !known(wanted))
}

/// Joins what has no conflict.
fn join(stored: &Layout, file: &LayoutFile) -> Merged {
    let (mut added, mut changed, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
    let mut namespaces = Vec::new();
    for old in &stored.namespaces {
        let new = in_file(file, old).map_or_else(
            || old.clone(),
            |wanted| Namespace { former: old.former.clone(), ..wanted.with_id(old.id, Some(old)) },
        );
        if new == *old { &mut unchanged } else { &mut changed }.push(old.id);
        namespaces.push(new);
    }
    // Ids that the file gives are taken first, so that none of them is given to another.
    let given = new_namespaces(stored, file).filter_map(|wanted| wanted.id).max();
    let mut next_id =
        given.map_or(stored.next_id, |NamespaceId(id)| stored.next_id.max(NamespaceId(id.saturating_add(1))));
    for wanted in new_namespaces(stored, file) {
        let id = wanted.id.unwrap_or_else(|| {
            let id = next_id;
            next_id = NamespaceId(id.0.saturating_add(1));
            id
        });
        added.push(id);
        namespaces.push(wanted.with_id(id, None));
    }
    let differs = stored.epoch == Epoch(0) || !added.is_empty() || !changed.is_empty();
    let epoch = Epoch(stored.epoch.0.saturating_add(differs.into()));
    Merged { layout: Layout::new(epoch, next_id, namespaces), added, changed, unchanged }
}
