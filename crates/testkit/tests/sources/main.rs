//! What the sources and the documents say, held to each other and to the rules of the tree. No server takes part.

mod cycles;
mod documents;
mod modules;

use std::path::{Path, PathBuf};

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
