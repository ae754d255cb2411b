//! Which suites have servers, from the test kit, and so are run once more against every server at hand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{entries, root};

/// What a suite that has servers names somewhere: the crate that has them.
const HAS_SERVERS: &str = "keyfold_testkit";

/// The text of a suite: one file, or all of a folder.
fn text(path: &Path) -> String {
    if path.is_dir() {
        entries(path).iter().map(|entry| text(entry)).collect()
    } else {
        fs::read_to_string(path).unwrap()
    }
}

/// The suites of all crates, each with its text.
fn suites() -> Vec<(String, String)> {
    let folders = entries(&root().join("crates")).into_iter().flat_map(|folder| entries(&folder.join("tests")));
    let is_suite = |path: &PathBuf| path.join("main.rs").exists() || path.extension().is_some_and(|end| end == "rs");
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    folders.filter(is_suite).map(|path| (name(&path), text(&path))).collect()
}

#[test]
fn every_suite_that_has_servers_is_run_against_all_of_them() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let line = makefile.lines().find_map(|line| line.strip_prefix("SERVER_SUITES := ")).unwrap();
    let named: BTreeSet<&str> = line.split_whitespace().collect();
    let suites = suites();
    let having: BTreeSet<&str> = suites
        .iter()
        .filter(|(name, text)| name != "sources" && text.contains(HAS_SERVERS))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(having, named);
}
