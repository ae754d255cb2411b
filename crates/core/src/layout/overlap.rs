//! Which templates share keys, and which of them has these then.

use super::conflict::Conflict;
use super::locate::RESERVED_PREFIXES;
use super::{Namespace, NamespaceIndex, naming};
use crate::placement::handmade::NUMBER_BYTES;
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
    // A template's rank is the number of templates that contain it. Those that contain it have fewer, and come later.
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

const KEYS_THERE: &str = "a name can't be both a hash to move keys out of and a key; choose another template, or settle the other namespace first";
const OWN_KEYS: &str = "such a key could come to lie where the hash lies; fold the namespace, with a `field_limit` that keeps no key plain";
const BOTH_HASHES: &str =
    "keys can't be told apart where hashes of both have the same names; move one namespace at a time";

/// Why keys can't be moved out of handmade hashes: a hash's name may be a key too, or another namespace's hash.
///
/// The comparison takes a number in base62 for any text. It may refuse a rule that would do, and lets no wrong one by.
pub(super) fn hashes_in_the_way(namespaces: &[Namespace]) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for namespace in namespaces {
        let Some(handmade) = namespace.handmade() else { continue };
        let shape = Automaton::of(handmade.shape());
        let mut conflict = |in_use: String, advice| {
            conflicts.push(Conflict {
                keys: namespace.template.to_string(),
                in_use,
                in_file: namespace
                    .former
                    .as_ref()
                    .map_or_else(String::new, |from| from.placement.line(&namespace.template)),
                advice,
            });
        };
        for other in namespaces {
            let is_own = other.template.same_shape(&namespace.template);
            if let Some(example) = shape.shared(&Automaton::of(&other.template))
                && !(is_own && always_folded(other))
            {
                let example = example.escape_ascii();
                conflict(
                    format!("`{example}` is a key of `{}`", other.template),
                    if is_own { OWN_KEYS } else { KEYS_THERE },
                );
            }
            if !is_own
                && let Some(theirs) = other.handmade()
                && let Some(example) = shape.shared(&Automaton::of(theirs.shape()))
            {
                let example = example.escape_ascii();
                conflict(format!("`{example}` may be a hash of `{}`", other.template), BOTH_HASHES);
            }
        }
    }
    conflicts
}

const SAME_NAMES: &str =
    "by chance; give the namespace another bucket rule, such as one bucket more, or another `field_limit`";

/// Why a layout can't be, where two of its namespaces would give their keys the same physical names.
pub(super) fn same_names(namespaces: &[Namespace]) -> Option<Conflict> {
    let hashes: Vec<_> = namespaces.iter().map(|namespace| naming::hashes_of(namespace.rules())).collect();
    let (later, earlier) = naming::same_names(&hashes)?;
    let [namespace, other] = [later, earlier].map(|index| &namespaces[index]);
    Some(Conflict {
        keys: namespace.template.to_string(),
        in_use: format!("the names of `{}` begin with `~{}`", other.template, other.stem.hash),
        in_file: format!("the same names: {}", namespace.placement.line(&namespace.template)),
        advice: SAME_NAMES,
    })
}

/// Whether every key of a namespace, all of whose parts are ints, is folded: none has a field that is too long.
fn always_folded(namespace: &Namespace) -> bool {
    let most = NUMBER_BYTES * namespace.template.placeholders().len();
    namespace.placement.has_names() && (!namespace.placement.has_buckets() || most <= namespace.field_limit)
}
