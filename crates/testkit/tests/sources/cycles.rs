//! No two modules need each other.
//!
//! What counts: a module *uses* another where it names something that the other declares, in a `use` or in the middle of
//! its code. Re-exports are seen through: whoever takes `crate::layout::Conflict` uses the file that declares it. Then,
//! in each module, the modules that it declares are looked at side by side, each with all that lies in it, and none may
//! need itself through others. At the crate's root these are its rooms; in a room they are its files.
//!
//! What doesn't: a module and those that it lies in. A room's head puts its files together, and they fill in what it
//! declares; that goes both ways in any program. Tests are left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use crate::modules::{Crate, Use};
use crate::{crate_roots, read, root};

/// Rooms that are one knot, with the reason. They may need each other and are looked at as one.
const KNOTS: &[(&str, &[&str])] = &[
    // What the tasks of one thread share: a worker holds its clients and its connections and takes orders, which may
    // bring a task for a connection; a connection's queue wakes the clients whose replies came; and a client begins
    // requests on connections that the worker has.
    ("crates/proxy/src/lib.rs", &["worker", "client", "order", "upstream"]),
];

#[test]
fn no_modules_need_each_other() {
    let mut found = Vec::new();
    for file in crate_roots() {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        let modules = read(&file);
        let knots: Vec<_> = KNOTS.iter().filter(|(of, _)| *of == name).map(|(_, rooms)| *rooms).collect();
        assert!(knots.is_empty() || !cycles(&modules, &[]).is_empty(), "{name}: {knots:?} are no knot any more");
        found.extend(cycles(&modules, &knots).into_iter().map(|cycle| format!("{name}: {cycle}")));
    }
    assert!(found.is_empty(), "modules that need each other:\n\n{}", found.join("\n\n"));
}

/// The uses among the modules that lie in one, with an example of each.
type Uses<'c> = BTreeMap<&'c str, BTreeMap<&'c str, Use<'c>>>;

/// The shortest cycle through each module that is in any. The rooms of a knot are one.
fn cycles(modules: &Crate, knots: &[&[&str]]) -> Vec<String> {
    let mut levels = BTreeMap::<&[String], Uses<'_>>::new();
    for used in modules.uses() {
        let shared = used.from.iter().zip(used.to).take_while(|(from, to)| from == to).count();
        let (Some(from), Some(to)) = (used.from.get(shared), used.to.get(shared)) else { continue };
        let one = |name| match knots.iter().find(|knot| shared == 0 && knot.contains(&name)) {
            Some(knot) => knot[0],
            None => name,
        };
        let (from, to) = (one(from), one(to));
        if from != to {
            levels.entry(&used.from[..shared]).or_default().entry(from).or_default().entry(to).or_insert(used);
        }
    }
    let mut found = Vec::new();
    for uses in levels.values() {
        let mut seen = BTreeSet::new();
        for module in uses.keys() {
            let Some(mut cycle) = cycle_through(uses, module) else { continue };
            let least = cycle.iter().enumerate().min_by_key(|(_, name)| **name).map_or(0, |(at, _)| at);
            cycle.rotate_left(least);
            if seen.insert(cycle.clone()) {
                found.push(describe(uses, &cycle));
            }
        }
    }
    found
}

/// The shortest way from a module back to it.
fn cycle_through<'c>(uses: &Uses<'c>, start: &'c str) -> Option<Vec<&'c str>> {
    let mut before = BTreeMap::new();
    let mut reached = VecDeque::from([start]);
    while let Some(module) = reached.pop_front() {
        for next in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
            if *next == start {
                let mut cycle = vec![module];
                while let Some(earlier) = before.get(cycle[cycle.len() - 1]) {
                    cycle.push(*earlier);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !before.contains_key(next) {
                before.insert(*next, module);
                reached.push_back(next);
            }
        }
    }
    None
}

/// A cycle, a line for each use in it.
fn describe(uses: &Uses<'_>, cycle: &[&str]) -> String {
    let lines = cycle.iter().zip(cycle.iter().cycle().skip(1)).map(|(from, to)| {
        let Use { from, named, .. } = &uses[from][to];
        format!("  {} names {}", from.join("::"), named.join("::"))
    });
    let ring = cycle.iter().chain(cycle.first()).copied().collect::<Vec<_>>().join(" → ");
    [ring].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// The cycles of a crate of these files.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<&Path, &str> = files.iter().map(|(file, text)| (Path::new(*file), *text)).collect();
    cycles(&Crate::read(Path::new("lib.rs"), &|file| files.get(file).map(|text| (*text).to_owned())), &[])
}

#[test]
fn a_cycle_is_found_and_told_with_the_paths_that_make_it() {
    let found = cycles_of(&[
        ("lib.rs", "pub mod wire; mod session; mod exchange;"),
        ("wire.rs", "pub fn write() {}"),
        ("session.rs", "use crate::{exchange::Exchange, wire}; pub(crate) fn hello(_: &Exchange) { wire::write() }"),
        ("exchange.rs", "pub struct Exchange; fn answer() { crate::session::hello(&Exchange) }"),
    ]);
    assert_eq!(
        found,
        [
            "exchange → session → exchange\n  exchange names crate::session::hello\n  session names crate::exchange::Exchange"
        ]
    );
}

#[test]
fn a_cycle_of_three_is_found_through_globs_names_and_what_imports_call_them() {
    let found = cycles_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a/mod.rs", "mod inner; pub use inner::*;"),
        ("a/inner.rs", "use super::super::b as other; pub struct A(other::B);"),
        ("b.rs", "pub struct B; use super::c::*; impl B { fn f(_: C) {} }"),
        ("c.rs", "pub struct C; macro_rules! m { () => { $crate::a::A } }"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("a → b → c → a\n  a::inner names other::B"), "{}", found[0]);
}

#[test]
fn files_of_a_room_are_looked_at_like_rooms_and_re_exports_are_seen_through() {
    let found = cycles_of(&[
        ("lib.rs", "mod layout;"),
        ("layout/mod.rs", "mod file; mod merge; pub use merge::Conflict; pub struct Layout;"),
        ("layout/file.rs", "use super::Conflict; pub struct File;"),
        ("layout/merge.rs", "use super::{Layout, file}; pub struct Conflict(file::File, Layout);"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("file → merge → file"), "{}", found[0]);
}

#[test]
fn parents_tests_and_words_in_comments_and_strings_make_no_cycle() {
    let found = cycles_of(&[
        ("lib.rs", "pub mod room; mod other; pub struct Root;"),
        ("room/mod.rs", "mod file; pub use file::File; pub struct Room(file::File);"),
        ("room/file.rs", "use super::Room; use crate::Root; pub struct File(Box<Room>, Root);"),
        (
            "other.rs",
            "//! See crate::room.\n use crate::room::Room; #[cfg(test)] mod tests { use crate::room; } const S: &str = \"crate::other\";",
        ),
    ]);
    assert_eq!(found, Vec::<String>::new());
    let found = cycles_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "#[cfg(test)] use crate::b::{B, C}; #[cfg(test)] fn f() { crate::b::g() } pub struct A;"),
        ("b.rs", "use crate::a::A; // crate::b\n fn f() { let _ = \"crate::a\"; std::fmt::b(); }"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}
