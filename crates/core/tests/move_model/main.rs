//! A model of a namespace's move: clients, members, a mover, coordinators and one key, in every order of
//! their steps.
//!
//! Members and coordinators are the core's own, down to the bytes of their atomic steps. What is tried, and what
//! is broken on purpose to see that the model would notice, is in `bounds.rs`.

mod acts;
mod bounds;
mod history;
mod keys;
mod layouts;
mod properties;
mod runs;
mod server;
mod world;

use stateright::{Model, Property};

use bounds::Bounds;
use world::{Action, World};

/// The model within its bounds.
#[derive(Clone, Debug)]
struct Moving(Bounds);

impl Model for Moving {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.0)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(&self.0, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(&action, &self.0);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.0)
    }
}
