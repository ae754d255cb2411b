//! What is tried on every push, what is tried by hand (`make model`), and the faults that must be found.

use std::io;

use keyfold_core::change::PATIENCE_MS;
use stateright::report::WriteReporter;
use stateright::{Checker, HasDiscoveries, Model};

use crate::Moving;
use crate::bounds::{BEGIN, Bounds, FOLD, Fault, Loss, REFOLD, TURN, UNFOLD};
use crate::keys::{Op, Stored};
use crate::properties::{KEPT, LINEARIZABLE, NONE_LATE, ONE_EPOCH, SETTLED};
use crate::world::{ANNOUNCEMENT_IS_OVER_MS, SILENCE_MS};

const LASTING: Option<Stored> = Some(Stored { value: 1, expires_at: None });
const ENDING: Option<Stored> = Some(Stored { value: 1, expires_at: Some(1) });

const ALL_OPS: &[&[Op]; 2] = &[
    &[Op::Get, Op::Set(3), Op::SetNx(4), Op::Incr, Op::Del, Op::Expire(1)],
    &[Op::Get, Op::Set(5), Op::SetNx(6), Op::Incr, Op::Del, Op::Expire(2)],
];
const INCR: &[&[Op]; 2] = &[&[Op::Incr], &[Op::Incr]];

/// A fold with one member, two clients, and a coordinator that may crash. Nothing else goes wrong.
const CALM: Bounds = Bounds {
    route: FOLD,
    held: LASTING,
    members: 1,
    joins: false,
    commands: [1, 1],
    ops: ALL_OPS,
    key_ticks: 0,
    ticks_ms: &[],
    changes: 3,
    mover_crashes: 0,
    member_crashes: 0,
    breaks: 0,
    late: 0,
    go_ons: 0,
    losses: &[],
    fault: None,
};

/// One change with two members, for whom requests are only something that takes time.
const CHANGE: Bounds = Bounds { route: BEGIN, members: 2, ops: INCR, changes: 2, ..CALM };

/// Tries everything within these bounds.
fn check(bounds: Bounds) {
    let checker = Moving(bounds).checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// The same, with a word on how far it is.
fn check_long(name: &str, bounds: Bounds) {
    eprintln!("== {name}");
    let checker = Moving(bounds).checker().threads(2).spawn_bfs();
    checker.join_and_report(&mut WriteReporter::new(&mut io::stderr())).assert_properties();
}

/// The model must notice that a rule isn't kept, by one of these properties.
fn check_fault(fault: Fault, bounds: &Bounds, noticed_by: &[&'static str]) {
    let model = Moving(Bounds { fault: Some(fault), ..bounds.clone() });
    let noticed = HasDiscoveries::AnyOf(noticed_by.iter().copied().collect());
    let checker = model.checker().finish_when(noticed).spawn_bfs().join();
    let found: Vec<&str> = noticed_by.iter().filter(|name| checker.discovery(name).is_some()).copied().collect();
    println!("{fault:?}: {} states, {found:?}", checker.unique_state_count());
    assert!(!found.is_empty(), "{fault:?} is not noticed");
}

#[test]
fn fold() {
    check(Bounds { held: ENDING, key_ticks: 1, mover_crashes: 1, changes: 2, ..CALM });
}

#[test]
fn unfold() {
    check(Bounds { route: UNFOLD, held: ENDING, key_ticks: 2, changes: 2, ..CALM });
}

#[test]
fn refold() {
    check(Bounds { route: REFOLD, mover_crashes: 1, changes: 2, ..CALM });
}

#[test]
fn turn_round() {
    check(Bounds { route: TURN, ..CALM });
}

#[test]
fn two_members() {
    check(Bounds { members: 2, changes: 2, ..CALM });
}

#[test]
fn time_passes() {
    check(Bounds { members: 2, ops: INCR, ticks_ms: &[PATIENCE_MS], changes: 2, ..CALM });
}

#[test]
fn a_member_is_silent() {
    check(Bounds { commands: [1, 0], ticks_ms: &[SILENCE_MS], ..CHANGE });
}

#[test]
fn announcements_end() {
    check(Bounds { commands: [1, 0], ticks_ms: &[ANNOUNCEMENT_IS_OVER_MS], ..CHANGE });
}

#[test]
fn the_clock_is_put_back() {
    check(Bounds { commands: [1, 0], ticks_ms: &[-3_600_000], changes: 1, ..CHANGE });
}

#[test]
fn requests_take_long() {
    check(Bounds { ticks_ms: &[PATIENCE_MS], go_ons: 1, ..CHANGE });
}

#[test]
fn connections_break() {
    check(Bounds { breaks: 1, go_ons: 1, ticks_ms: &[PATIENCE_MS], changes: 1, ..CHANGE });
}

#[test]
fn words_come_late() {
    check(Bounds { commands: [1, 0], ticks_ms: &[PATIENCE_MS], late: 1, ..CHANGE });
}

#[test]
fn a_member_joins() {
    check(Bounds { joins: true, ..CHANGE });
}

#[test]
fn a_member_crashes() {
    check(Bounds { commands: [1, 0], ticks_ms: &[SILENCE_MS], member_crashes: 1, changes: 1, ..CHANGE });
}

#[test]
fn the_register_is_lost() {
    check(Bounds { route: FOLD, losses: &[Loss::Register], commands: [1, 0], changes: 4, ..CALM });
}

#[test]
fn the_register_is_lost_after_an_unfold() {
    check(Bounds { route: UNFOLD, losses: &[Loss::Register], commands: [1, 0], changes: 4, ..CALM });
}

#[test]
fn the_register_is_lost_before_two() {
    check(Bounds { losses: &[Loss::Register], commands: [1, 0], ..CHANGE });
}

#[test]
fn the_register_is_set_back() {
    check(Bounds { route: FOLD, losses: &[Loss::SetBack], commands: [1, 0], changes: 4, ..CALM });
}

#[test]
fn the_register_is_set_back_before_two() {
    check(Bounds { losses: &[Loss::SetBack], commands: [1, 0], ..CHANGE });
}

#[test]
fn a_replica_takes_over() {
    check(Bounds { route: FOLD, losses: &[Loss::FailOver], commands: [1, 0], ops: INCR, changes: 4, ..CALM });
}

#[test]
fn a_replica_takes_over_after_an_unfold() {
    check(Bounds { route: UNFOLD, losses: &[Loss::FailOver], commands: [1, 0], ops: INCR, changes: 4, ..CALM });
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn a_replica_takes_over_before_two() {
    check(Bounds { losses: &[Loss::FailOver], commands: [1, 0], ..CHANGE });
}

#[test]
fn announcement_and_answers_are_lost() {
    let losses = &[Loss::Announcement, Loss::Answers, Loss::Copy];
    check(Bounds { losses, commands: [1, 0], changes: 1, ..CHANGE });
}

#[test]
#[ignore = "takes long: `make model`"]
fn larger() {
    let calm = Bounds { held: ENDING, key_ticks: 2, mover_crashes: 1, ..CALM };
    for (name, route) in [("fold", FOLD), ("unfold", UNFOLD), ("refold", REFOLD), ("turn round", TURN)] {
        check_long(name, Bounds { route, ..calm.clone() });
    }
    let patience = Bounds { ticks_ms: &[PATIENCE_MS], go_ons: 1, ..CHANGE };
    check_long("connections break, words come late", Bounds { breaks: 1, late: 1, commands: [1, 0], ..patience });
    let silence = Bounds { ticks_ms: &[SILENCE_MS], ..CHANGE };
    check_long("a member and a coordinator crash", Bounds { member_crashes: 1, ..silence.clone() });
    check_long("words come late while members are silent", Bounds { late: 1, commands: [1, 0], ..silence.clone() });
    check_long("members are silent during a whole fold", Bounds { route: FOLD, commands: [1, 0], ..silence.clone() });
    let back = Bounds { ticks_ms: &[-3_600_000, SILENCE_MS], commands: [1, 0], changes: 1, ..silence.clone() };
    check_long("members are silent, and the clock is put back", back);
    let losses = &[Loss::Register, Loss::SetBack, Loss::Answers];
    check_long("one loss after another", Bounds { losses, commands: [1, 0], changes: 3, ..CHANGE });
    let losses = &[Loss::Register];
    let lost = Bounds { losses, commands: [1, 0], ..silence };
    check_long("the register is lost while members are silent", lost.clone());
    check_fault(Fault::PassesOver, &lost, &[LINEARIZABLE]);
}

#[test]
fn broken_rules_of_a_change_are_noticed() {
    let epochs = &[ONE_EPOCH, NONE_LATE];
    let silence = Bounds { ticks_ms: &[SILENCE_MS], commands: [1, 0], changes: 1, ..CHANGE };
    check_fault(Fault::NoFence, &silence, epochs);
    check_fault(Fault::EarlyList, &Bounds { joins: true, ..CHANGE }, epochs);
    check_fault(Fault::UncheckedConnections, &silence, epochs);
    let over = Bounds { route: FOLD, losses: &[Loss::FailOver], commands: [0, 0], changes: 3, ..CALM };
    check_fault(Fault::KeptWalk, &over, &[SETTLED]);
    let older = Bounds { route: FOLD, losses: &[Loss::SetBack], commands: [1, 0], changes: 3, ..CALM };
    check_fault(Fault::ObeysTheOlder, &older, epochs);
    check_fault(Fault::ForgottenConnections, &Bounds { breaks: 1, ..CHANGE }, epochs);
    check_fault(Fault::BlindResume, &Bounds { ticks_ms: &[PATIENCE_MS], ..CHANGE }, epochs);
    check_fault(Fault::BlindChange, &Bounds { ticks_ms: &[PATIENCE_MS], ..CHANGE }, epochs);
}

#[test]
fn broken_rules_of_a_move_are_noticed() {
    let keys = &[LINEARIZABLE, KEPT, SETTLED];
    let turn = Bounds { route: TURN, commands: [0, 0], mover_crashes: 1, ..CALM };
    check_fault(Fault::FreeMover, &turn, &[KEPT, SETTLED]);
    check_fault(Fault::BlindMover, &CALM, keys);
    check_fault(Fault::HalfDelete, &CALM, keys);
    check_fault(Fault::LateWrite, &Bounds { held: ENDING, key_ticks: 2, changes: 2, ..CALM }, keys);
}
