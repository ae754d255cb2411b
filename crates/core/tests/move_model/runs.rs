//! What is tried on every push, what is tried by hand, and the faults that must be found.

use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model};

use crate::Moving;
use crate::bounds::{Bounds, BEGIN, FOLD, Fault, REFOLD, TURN, UNFOLD};
use crate::keys::{Op, Stored};
use crate::world::LEASE_IS_OVER_MS;
use keyfold_core::change::PATIENCE_MS;

const SOME: Option<Stored> = Some(Stored { value: 1, expires_at: None });
const ENDING: Option<Stored> = Some(Stored { value: 1, expires_at: Some(1) });

const ALL_OPS: &[&[Op]; 2] = &[
    &[Op::Get, Op::Set(3), Op::SetNx(4), Op::Incr, Op::Del, Op::Expire(1)],
    &[Op::Get, Op::Set(5), Op::SetNx(6), Op::Incr, Op::Del, Op::Expire(2)],
];
const INCR: &[&[Op]; 2] = &[&[Op::Incr], &[Op::Incr]];

/// One member or two, and nothing goes wrong but what the clients and the mover do to each other.
const CALM: Bounds = Bounds {
    route: FOLD,
    held: SOME,
    members: 1,
    joins: false,
    commands: [1, 1],
    ops: ALL_OPS,
    key_ticks: 0,
    ticks_ms: &[],
    changes: 2,
    mover_crashes: 0,
    member_crashes: 0,
    breaks: 0,
    late: 0,
    go_ons: 0,
    fault: None,
};

fn check(name: &str, bounds: Bounds) {
    let checker = Moving(bounds).checker().threads(2).timeout(Duration::from_secs(7200)).spawn_bfs();
    let began = std::time::Instant::now();
    let checker = checker.join();
    println!(
        "{name}: {} states, depth {}, {:.1?}, done {}",
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed(),
        checker.is_done()
    );
    checker.assert_properties();
}

/// The model must notice that this rule isn't kept.
fn check_fault(fault: Fault, bounds: Bounds) {
    let checker = Moving(Bounds { fault: Some(fault), ..bounds.clone() })
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyFailures)
        .timeout(Duration::from_secs(600))
        .spawn_bfs()
        .join();
    let found = checker.discoveries();
    let found: Vec<_> = found.into_iter().filter(|(name, _)| checker.discovery_classification(name).to_string() == "counterexample").collect();
    println!("{fault:?}: {} states", checker.unique_state_count());
    assert!(!found.is_empty());
    for (name, path) in found {
        println!("{name}");
        for action in path.into_actions() { println!("   {action:?}"); }
    }
}

#[test]
fn faults() {
    let one = match std::env::var("KEYFOLD_FAULT") { Ok(x) => x, Err(_) => return };
    let lease = Bounds { members: 2, route: BEGIN, changes: 1, commands: [1, 0], ops: INCR, ticks_ms: &[LEASE_IS_OVER_MS], ..CALM };
    for (fault, bounds) in [
        (Fault::NoFence, lease.clone()),
        (Fault::LateFence, Bounds { changes: 2, ..lease.clone() }),
        (Fault::UncheckedConnections, lease.clone()),
        (Fault::ForgottenConnections, Bounds { breaks: 1, ticks_ms: &[], ..lease.clone() }),
        (Fault::BlindResume, Bounds { ticks_ms: &[PATIENCE_MS], ..lease.clone() }),
        (Fault::BlindChange, Bounds { ticks_ms: &[PATIENCE_MS], ..lease.clone() }),
        (Fault::BlindMover, CALM),
        (Fault::HalfDelete, CALM),
        (Fault::LateWrite, Bounds { held: ENDING, key_ticks: 2, ..CALM }),
    ] {
        if one == "all" || one == format!("{fault:?}") { check_fault(fault, bounds); }
    }
}

#[test]
fn probe() {
    let which = std::env::var("KEYFOLD_MODEL").unwrap_or_default();
    let bounds = match which.as_str() {
        "calm" => CALM,
        "calm2" => Bounds { commands: [2, 2], mover_crashes: 1, key_ticks: 2, held: ENDING, ..CALM },
        "control" => Bounds { members: 2, ops: INCR, ..CALM },
        "control-tick" => Bounds { members: 2, ops: INCR, ticks_ms: &[PATIENCE_MS], ..CALM },
        "control-lease" => Bounds { members: 2, ops: INCR, ticks_ms: &[LEASE_IS_OVER_MS], ..CALM },
        "control-3" => Bounds { members: 2, ops: INCR, ticks_ms: &[LEASE_IS_OVER_MS], changes: 3, ..CALM },
        "unfold" => Bounds { route: UNFOLD, ..CALM },
        "refold" => Bounds { route: REFOLD, ..CALM },
        "turn" => Bounds { route: TURN, changes: 3, ..CALM },
        "unfold-tick" => Bounds { route: UNFOLD, held: ENDING, key_ticks: 2, ..CALM },
        "fold-tick" => Bounds { held: ENDING, key_ticks: 1, mover_crashes: 1, ..CALM },
        "begin" => Bounds { members: 2, route: BEGIN, ops: INCR, commands: [1, 0], ticks_ms: &[LEASE_IS_OVER_MS], ..CALM },
        "begin-patience" => Bounds { members: 2, route: BEGIN, ops: INCR, commands: [1, 1], ticks_ms: &[PATIENCE_MS], go_ons: 1, ..CALM },
        "begin-late" => Bounds { members: 2, route: BEGIN, ops: INCR, commands: [1, 0], ticks_ms: &[PATIENCE_MS], late: 1, ..CALM },
        "begin-joins" => Bounds { members: 2, joins: true, route: BEGIN, ops: INCR, commands: [1, 1], ..CALM },
        "begin-crash" => Bounds { members: 2, route: BEGIN, ops: INCR, commands: [1, 0], ticks_ms: &[LEASE_IS_OVER_MS], member_crashes: 1, ..CALM },
        "begin-breaks" => Bounds { members: 2, route: BEGIN, ops: INCR, commands: [1, 1], ticks_ms: &[PATIENCE_MS], breaks: 1, go_ons: 1, ..CALM },
        _ => return,
    };
    check(&which, bounds);
}
