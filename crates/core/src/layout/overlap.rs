//! Which templates share keys, and which of them has these then.

use super::conflict::Conflict;
use super::locate::RESERVED_PREFIXES;
use super::{Namespace, NamespaceIndex, naming};
use crate::placement::handmade::NUMBER_BYTES;
use crate::template::{Automaton, Relation, Template, Templates};

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

/// Each two templates that share keys without one being the more specific.
pub(super) fn clashes(templates: &[&Template]) -> impl Iterator<Item = Clash> {
    relations(templates).into_iter().filter_map(|(earlier, later, relation)| match relation {
        Relation::Same => Some(Clash { earlier, later, example: None }),
        Relation::Crossing(example) => Some(Clash { earlier, later, example: Some(example) }),
        Relation::Disjoint | Relation::Within | Relation::Around => None,
    })
}

/// All namespaces' templates, each with its number there, in an order in which a template comes before those that it lies
/// within.
pub(super) fn specific_first<'t>(keys: impl Iterator<Item = &'t Templates>) -> Vec<(NamespaceIndex, usize)> {
    let (templates, order): (Vec<_>, Vec<_>) = keys
        .enumerate()
        .flat_map(|(index, keys)| {
            keys.iter().enumerate().map(move |(number, template)| (template, (NamespaceIndex(index), number)))
        })
        .unzip();
    // A template's rank is the number of templates that contain it. Those that contain it have fewer, and come later.
    let mut depths = vec![0_usize; templates.len()];
    for (earlier, later, relation) in relations(&templates) {
        match relation {
            Relation::Within => depths[earlier] += 1,
            Relation::Around => depths[later] += 1,
            Relation::Disjoint | Relation::Same | Relation::Crossing(_) => {}
        }
    }
    let mut ranked: Vec<_> = depths.into_iter().zip(order).collect();
    ranked.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    ranked.into_iter().map(|(_, template)| template).collect()
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

const BOTH_MATCH: &str = "neither is the more specific; narrow one of them";

/// Why a layout can't be, where a key would belong to two of its namespaces.
pub(super) fn shared_keys(namespaces: &[Namespace]) -> Option<Conflict> {
    let all: Vec<_> = namespaces
        .iter()
        .flat_map(|namespace| namespace.keys.iter().map(move |template| (namespace, template)))
        .collect();
    let templates: Vec<_> = all.iter().map(|(_, template)| *template).collect();
    let Clash { earlier, later, .. } = clashes(&templates).next()?;
    let example =
        Automaton::of(templates[later]).shared(&Automaton::of(templates[earlier]))?.escape_ascii().to_string();
    let [(namespace, _), (other, _)] = [later, earlier].map(|index| all[index]);
    Some(Conflict {
        keys: namespace.keys.to_string(),
        in_use: format!("`{example}` is a key of `{}`: {}", other.keys, other.line()),
        in_file: format!("it is a key of this namespace too: {}", namespace.line()),
        advice: BOTH_MATCH,
    })
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
                keys: namespace.keys.to_string(),
                in_use,
                in_file: namespace
                    .former
                    .as_ref()
                    .map_or_else(String::new, |from| from.placement.line(namespace.keys.first())),
                advice,
            });
        };
        for other in namespaces {
            let is_own = other.keys.same_shape(&namespace.keys);
            let shared = other.keys.iter().find_map(|template| shape.shared(&Automaton::of(template)));
            if let Some(example) = shared
                && !(is_own && always_folded(other))
            {
                let example = example.escape_ascii();
                conflict(
                    format!("`{example}` is a key of `{}`", other.keys),
                    if is_own { OWN_KEYS } else { KEYS_THERE },
                );
            }
            if !is_own
                && let Some(theirs) = other.handmade()
                && let Some(example) = shape.shared(&Automaton::of(theirs.shape()))
            {
                let example = example.escape_ascii();
                conflict(format!("`{example}` may be a hash of `{}`", other.keys), BOTH_HASHES);
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
        keys: namespace.keys.to_string(),
        in_use: format!("the names of `{}` begin with `~{}`", other.keys, other.stem.hash),
        in_file: format!("the same names: {}", namespace.line()),
        advice: SAME_NAMES,
    })
}

/// Whether every key of a namespace, all of whose parts are ints, is folded: none has a field that is too long.
fn always_folded(namespace: &Namespace) -> bool {
    let most = NUMBER_BYTES * namespace.keys.first().placeholders().len();
    namespace.placement.has_names() && (!namespace.placement.has_buckets() || most <= namespace.field_limit)
}
