//! A model of a move over two shards: a walk over both primaries, and the settled layout after it, in every order of steps
//! with clients, replicas that lag, failovers, restarts from an earlier state, and a slot that goes from shard to shard.
//!
//! One key lies in one place of two on one node. Whether the move may be settled is the core's own word
//! ([`keyfold_core::cluster::proof`]); once it is, nobody looks in old places. Each part of that rule is left out by itself,
//! and that must be noticed.
#![expect(clippy::panic, reason = "a test that fails says where by panicking")]

mod world;

use stateright::{Checker, Model, Property};

use world::{Action, Bounds, Rule, World};

const FOUND: &str = "once the move is settled, no primary has the key in its old place";
const SETTLES: &str = "the move is settled";

struct Moves(Bounds);

impl Model for Moves {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.0)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(action, self.0.broken);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(FOUND, |_, world: &World| !world.is_settled || world.is_out_of_old_places()),
            Property::sometimes(SETTLES, |_, world: &World| world.is_settled),
        ]
    }
}

/// Whether any order of steps leads to a key that nobody finds.
fn is_noticed(bounds: Bounds) -> bool {
    Moves(bounds).checker().threads(2).spawn_bfs().join().discovery(FOUND).is_some()
}

const NONE: Bounds = Bounds { failovers: 0, restarts: 0, slot_moves: 0, losses: 0, broken: None };
/// Mishaps of each kind, and two kinds together.
const BOUNDS: [Bounds; 6] = [
    Bounds { failovers: 2, ..NONE },
    Bounds { failovers: 1, losses: 1, ..NONE },
    Bounds { failovers: 1, restarts: 1, ..NONE },
    Bounds { slot_moves: 2, ..NONE },
    Bounds { restarts: 1, slot_moves: 1, ..NONE },
    Bounds { failovers: 1, slot_moves: 1, ..NONE },
];

#[test]
fn what_a_walk_proves_stays_so() {
    for bounds in BOUNDS {
        let checker = Moves(bounds).checker().threads(2).spawn_bfs().join();
        if let Some(path) = checker.discovery(FOUND) {
            panic!("{bounds:?}: {:?}", path.into_actions());
        }
        eprintln!("{bounds:?}: {} states", checker.unique_state_count());
        checker.assert_properties();
    }
}

#[test]
fn each_part_of_the_rule_is_needed() {
    for broken in Rule::ALL {
        let is_found = BOUNDS.iter().any(|bounds| is_noticed(Bounds { broken: Some(broken), ..*bounds }));
        assert!(is_found, "{broken:?} is not needed");
    }
}
