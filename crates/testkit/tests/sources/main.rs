//! What the sources and the documents say, held to each other and to the rules of the tree. No server takes part.

mod cycles;
mod documents;
mod modules;
mod placements;
mod suites;

use std::path::{Path, PathBuf};

use modules::Crate;

/// Where the workspace lies.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What lies in a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    all.sort();
    all
}

/// The file that each crate begins with, the programs of a crate too.
fn crate_roots() -> Vec<PathBuf> {
    let sources = entries(&root().join("crates")).into_iter().map(|folder| folder.join("src"));
    let roots = sources.flat_map(|sources| {
        let bins = entries(&sources.join("bin")).into_iter();
        let bins = bins.map(|bin| if bin.is_dir() { bin.join("main.rs") } else { bin });
        [sources.join("lib.rs"), sources.join("main.rs")].into_iter().chain(bins)
    });
    roots.filter(|file| file.exists()).collect()
}

/// The modules of the crate that begins with this file.
fn read(file: &Path) -> Crate {
    Crate::read(file, &|file| std::fs::read_to_string(file).ok())
}
