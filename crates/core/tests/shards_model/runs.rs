//! What is tried on every push, what is tried by hand (`make model`), and the faults that must be found.

use std::io;

use keyfold_core::change::{HELD_MS, READY_MS};
use stateright::report::WriteReporter;
use stateright::{Checker, HasDiscoveries, Model};

use crate::world::{Bounds, Fault};
use crate::{NONE_LATE, ONE_EPOCH, READS, Shards};

/// One change by one coordinator. Nothing goes wrong.
const CALM: Bounds = Bounds {
    cut_off: None,
    hangs: false,
    requests: [1, 1],
    changes: 1,
    failures: 0,
    tends: 0,
    looks: 1,
    late: 0,
    ticks_ms: &[],
    losses: &[],
    fault: None,
};

/// The same, and one member has to connect first.
const CUT_OFF: Bounds = Bounds { cut_off: Some(1), requests: [0, 0], ..CALM };

/// The same, and that one wakes up only with its connection.
const HANGS: Bounds = Bounds { hangs: true, ..CUT_OFF };

/// Tries everything within these bounds.
fn check(bounds: Bounds) {
    let checker = Shards(bounds).checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// The same, with a word on how far it is.
fn check_long(name: &str, bounds: Bounds) {
    eprintln!("== {name}");
    let checker = Shards(bounds).checker().threads(2).spawn_bfs();
    checker.join_and_report(&mut WriteReporter::new(&mut io::stderr())).assert_properties();
}

/// The model must notice that a rule isn't kept.
fn check_fault(fault: Fault, bounds: &Bounds) {
    let noticed_by = [ONE_EPOCH, NONE_LATE, READS];
    let model = Shards(Bounds { fault: Some(fault), ..bounds.clone() });
    let noticed = HasDiscoveries::AnyOf(noticed_by.into_iter().collect());
    let checker = model.checker().finish_when(noticed).spawn_bfs().join();
    let found: Vec<&str> = noticed_by.into_iter().filter(|name| checker.discovery(name).is_some()).collect();
    println!("{fault:?}: {} states, {found:?}", checker.unique_state_count());
    assert!(!found.is_empty(), "{fault:?} is not noticed");
}

#[test]
fn a_change() {
    check(CALM);
}

#[test]
fn a_member_connects_meanwhile() {
    check(CUT_OFF);
}

#[test]
fn a_member_is_silent() {
    check(Bounds { ticks_ms: &[READY_MS + 1], requests: [0, 0], ..HANGS });
}

#[test]
fn a_coordinator_dies_and_its_words_come_late() {
    check(Bounds { changes: 2, failures: 1, late: 1, ..HANGS });
}

#[test]
fn members_bring_witnesses_up_to_the_home() {
    check(Bounds { tends: 1, failures: 1, ticks_ms: &[HELD_MS + 1], ..HANGS });
}

#[test]
fn the_home_is_set_back() {
    check(Bounds { losses: &[0], changes: 2, ..HANGS });
}

#[test]
fn the_home_is_set_back_and_a_change_fails() {
    check(Bounds { losses: &[0], changes: 2, failures: 1, ..HANGS });
}

#[test]
fn the_other_shard_is_set_back() {
    check(Bounds { losses: &[1], ..HANGS });
}

#[test]
#[ignore = "takes long: `make model`"]
fn larger() {
    let ends = &[HELD_MS + 1];
    check_long("the home is set back", Bounds { losses: &[0], changes: 2, ..CUT_OFF });
    check_long("the other shard is set back", Bounds { losses: &[1], changes: 2, ..CUT_OFF });
    check_long(
        "the home is set back while one connects to it",
        Bounds { cut_off: Some(0), losses: &[0], changes: 2, ..HANGS },
    );
    check_long("a coordinator dies", Bounds { changes: 2, failures: 1, late: 1, ticks_ms: ends, ..CUT_OFF });
    check_long("witnesses are brought up", Bounds { tends: 1, changes: 2, failures: 1, ticks_ms: ends, ..HANGS });
    check_long("witnesses are brought up twice", Bounds { tends: 2, failures: 1, ticks_ms: ends, ..HANGS });
    check_long(
        "the same, and the home is set back",
        Bounds { tends: 1, losses: &[0], changes: 2, failures: 1, ..HANGS },
    );
    check_long("a member is silent", Bounds { ticks_ms: &[READY_MS + 1], requests: [1, 0], ..CALM });
}

#[test]
fn broken_rules_are_noticed() {
    check_fault(Fault::NoWarning, &HANGS);
    check_fault(Fault::NamedLate, &HANGS);
    check_fault(Fault::OneList, &Bounds { ticks_ms: &[READY_MS + 1], ..CALM });
    check_fault(Fault::OneWord, &Bounds { losses: &[0], ..HANGS });
    check_fault(Fault::KeptSight, &Bounds { losses: &[0], changes: 2, ..HANGS });
    check_fault(Fault::Backward, &Bounds { tends: 1, losses: &[0], ..HANGS });
}
