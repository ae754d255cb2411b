//! The memory model keeps within 2% of every server at hand. `make memory-model` measures more, and larger.

use std::thread;

use keyfold_testkit::memory::{Case, Measured, case, measure, real};
use keyfold_testkit::{Binary, found};

const TOLERANCE_PERCENT: f64 = 2.0;
/// Enough that chance doesn't show, few enough to be quick.
const RECORDS: usize = 5_000;

fn check(cases: &[Case]) {
    let off: Vec<String> = found().iter().flat_map(|binary| off(binary, cases)).collect();
    assert!(off.is_empty(), "{off:#?}");
}

/// The predictions for one server that are too far from it, both times: a busy machine may disturb one weighing.
fn off(binary: &Binary, cases: &[Case]) -> Vec<String> {
    let is_off = |measured: &Measured| measured.error_percent().abs() > TOLERANCE_PERCENT;
    let mut off = Vec::new();
    for case in cases {
        let mut measured = measure(binary, case).unwrap();
        if is_off(&measured) {
            measured = measure(binary, case).unwrap();
        }
        if is_off(&measured) {
            off.push(format!("{}, {}: {measured:?} {:+.2}%", binary.name(), case.name, measured.error_percent()));
        }
    }
    off
}

/// The same on a node of a cluster. It waits for some seconds before it serves its slots, so all servers do so together.
fn check_in_cluster(cases: &[Case]) {
    let servers = found();
    let off: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = servers.iter().map(|binary| scope.spawn(|| off(binary, cases))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn made_up_data() {
    check(&case::seeded(RECORDS));
}

#[test]
fn real_data() {
    let Some(directory) = real::directory() else {
        eprintln!("skipped: no real data beside the workspace or under KEYFOLD_DATA");
        return;
    };
    for cases in real::cases(&directory, RECORDS) {
        check(&cases.unwrap());
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn made_up_data_in_a_cluster() {
    check_in_cluster(&case::seeded_in_cluster(RECORDS));
}

#[test]
fn ints_and_uuids_in_a_cluster() {
    let cases = [false, true].map(|expire| case::ints_and_uuids_in_cluster(RECORDS, expire));
    // Of both kinds, plain and folded, with expiry and without.
    let some: Vec<Case> = cases.concat().into_iter().step_by(3).collect();
    check_in_cluster(&some);
}
