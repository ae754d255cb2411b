//! The test bed itself: clusters and Sentinels of every server on this machine do what tests will ask of them.
//!
//! What takes long runs on the newest Redis and the newest Valkey; `make test-long` runs it on all others.

mod client;
mod cluster;
mod failures;
mod sentinel;

use std::thread;

use keyfold_testkit::servers::{Binary, Flavor, found};

/// The newest server of each flavor, and all others.
fn newest_and_others() -> (Vec<Binary>, Vec<Binary>) {
    let all = found();
    assert!(!all.is_empty(), "no redis-server or valkey-server; run scripts/ensure-server");
    let newest = |flavor| all.iter().rev().find(|binary| binary.flavor() == flavor).cloned();
    let newest: Vec<Binary> = [Flavor::Redis, Flavor::Valkey].into_iter().filter_map(newest).collect();
    let others = all.into_iter().filter(|binary| !newest.contains(binary)).collect();
    (newest, others)
}

/// Runs a test on each of these servers, all at the same time: most of it is waiting.
fn each(binaries: &[Binary], test: impl Fn(&Binary) + Sync) {
    thread::scope(|scope| {
        for binary in binaries {
            let test = &test;
            thread::Builder::new().name(binary.name()).spawn_scoped(scope, move || test(binary)).expect("a thread");
        }
    });
}
