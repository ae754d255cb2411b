//! A model of the control plane on a cluster: members, a coordinator, two shards with connections to each, in every
//! order of their steps, where either shard may be set back to what a replica of it held.
//!
//! The home and one witness lie on the first shard, another witness on the second. Members, coordinators and looks of
//! new connections are the core's own, down to the bytes of their steps. Keys are not in it (`move_model` has them):
//! a layout is the set of places that it reads, and a request leaves something in the one that its layout writes.

mod acts;
mod runs;
#[path = "../move_model/server.rs"]
mod server;
mod world;

use stateright::{Model, Property};

use world::{Action, Bounds, Line, Process, World};

pub(crate) const ONE_EPOCH: &str = "what is under way goes by one layout";
pub(crate) const NONE_LATE: &str = "who can reach a node serves the layout that all others do";
pub(crate) const READS: &str = "who is served sees all that was written on the node";

/// The model within its bounds.
#[derive(Clone, Debug)]
struct Shards(Bounds);

impl Model for Shards {
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
        let mut all = vec![
            Property::always(ONE_EPOCH, |_, world: &World| {
                world.flights.iter().all(|flight| flight.layout == world.flights[0].layout)
            }),
            Property::always(NONE_LATE, |_, world: &World| {
                let serving: Vec<u8> = world.served().map(|(_, layout)| layout).collect();
                serving.iter().all(|layout| *layout == serving[0])
            }),
            Property::always(READS, |_, world: &World| {
                world.served().all(|(shard, layout)| world.data[shard] & !world.layouts[usize::from(layout)].reads == 0)
            }),
            Property::sometimes("all serve a newer layout", |_, world: &World| {
                let serves = |process: &Process| process.known > 0 && process.lines.contains(&Line::Used);
                world.processes.iter().all(serves) && world.served().all(|(_, layout)| layout > 0)
            }),
        ];
        if self.0.losses.contains(&0) {
            all.push(Property::sometimes("what was set back is put forward", |model: &Self, world: &World| {
                let lost = world.left.losses != (1 << model.0.losses.len()) - 1;
                lost && world.served().any(|(_, layout)| world.layouts[usize::from(layout)].is_put_back)
            }));
        }
        all
    }
}
