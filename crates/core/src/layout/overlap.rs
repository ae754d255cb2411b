//! Which templates share keys, and which of them has these then.

use super::NamespaceIndex;
use super::locate::RESERVED_PREFIXES;
use crate::template::{Automaton, Relation, Template};

/// Two templates that can't be told apart for some key.
pub(super) struct Clash {
    pub(super) earlier: usize,
    pub(super) later: usize,
    /// A key that both match; none where they match the same keys.
    pub(super) example: Option<Vec<u8>>,
}

/// Whether every key of `template` is reserved. One that begins with text may match reserved keys among
/// others: these are refused before any template is asked.
pub(super) fn is_reserved(template: &Template) -> bool {
    Automaton::of(template).beyond(&Automaton::of_prefixes(&RESERVED_PREFIXES)).is_none()
}

/// The first two templates that share keys without one being the more specific.
pub(super) fn first_clash(templates: &[&Template]) -> Option<Clash> {
    relations(templates).into_iter().find_map(|(earlier, later, relation)| match relation {
        Relation::Same => Some(Clash { earlier, later, example: None }),
        Relation::Crossing(example) => Some(Clash { earlier, later, example: Some(example) }),
        Relation::Disjoint | Relation::Within | Relation::Around => None,
    })
}

/// An order in which a template comes before those that it lies within.
pub(super) fn specific_first(templates: &[&Template]) -> Vec<NamespaceIndex> {
    // What a template lies within, those around it lie within fewer.
    let mut depths = vec![0_usize; templates.len()];
    for (earlier, later, relation) in relations(templates) {
        match relation {
            Relation::Within => depths[earlier] += 1,
            Relation::Around => depths[later] += 1,
            Relation::Disjoint | Relation::Same | Relation::Crossing(_) => {}
        }
    }
    let mut order: Vec<_> = (0..templates.len()).map(NamespaceIndex).collect();
    order.sort_by_key(|index| std::cmp::Reverse(depths[index.0]));
    order
}

fn relations(templates: &[&Template]) -> Vec<(usize, usize, Relation)> {
    let automata: Vec<_> = templates.iter().map(|template| Automaton::of(template)).collect();
    let mut relations = Vec::new();
    for (later, automaton) in automata.iter().enumerate() {
        for (earlier, other) in automata[..later].iter().enumerate() {
            relations.push((earlier, later, other.relation(automaton)));
        }
    }
    relations
}
