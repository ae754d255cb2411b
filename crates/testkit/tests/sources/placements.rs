//! Others ask placements what they do, and don't tell them apart: so a new one is a file and a line.
//!
//! The reader of sources doesn't see through another name for the whole type (`use Placement as Rule`).

use std::collections::BTreeSet;

use crate::{crate_roots, read, root};

/// The rooms that name variants of placements or of places: the crate's first file, and the module.
const KNOWING: [(&str, &str); 3] = [
    ("crates/core/src/lib.rs", "placement"),
    // It builds what a file says.
    ("crates/core/src/lib.rs", "layout::file"),
    // It says which kinds of folding are weighed; the search and the judgement differ by these.
    ("crates/survey/src/lib.rs", "choose::folding"),
];

#[test]
fn nobody_else_names_a_variant_of_placements_or_places() {
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    for file in crate_roots() {
        let krate = file.strip_prefix(root()).unwrap().display().to_string();
        for (module, named) in read(&file).named().filter(|(_, named)| has_variant(named)) {
            let module = module.join("::");
            let is_within = |room: &str| module == room || module.starts_with(&format!("{room}::"));
            match KNOWING.iter().find(|(of, room)| *of == krate && is_within(room)) {
                Some(knowing) => _ = known.insert(*knowing),
                None => found.push(format!("{krate}: {module} names {}", named.join("::"))),
            }
        }
    }
    assert!(found.is_empty(), "ask by a method of `crates/core/src/placement` instead:\n{}", found.join("\n"));
    assert_eq!(known, KNOWING.into(), "rooms that name variants");
}

fn has_variant(path: &[String]) -> bool {
    let is_variant = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    path.windows(2).any(|pair| ["Placement", "PlaceKind"].contains(&pair[0].as_str()) && is_variant(&pair[1]))
}
