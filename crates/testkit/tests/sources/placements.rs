//! Others ask places of what kind they are, and don't tell the kinds apart: so a new one is a file and a line. What rules
//! a placement may have nobody outside its room can name.
//!
//! The reader of sources doesn't see through another name for the whole type (`use PlaceKind as Kind`).

use std::collections::BTreeSet;

use crate::{crate_roots, read, root};

/// The rooms that name variants of places: the crate's first file, and the module.
const KNOWING: [(&str, &str); 1] = [("crates/core/src/lib.rs", "placement")];

#[test]
fn nobody_else_names_a_variant_of_places() {
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
    path.windows(2).any(|pair| pair[0] == "PlaceKind" && is_variant(&pair[1]))
}
