//! What is true at every moment, and what must happen at some.

use stateright::Property;

use crate::Moving;
use crate::bounds::{Bounds, Loss, Route};
use crate::keys::Step;
use crate::world::{Connections, Who, World};

pub(crate) const LINEARIZABLE: &str = "every answer fits one order of the commands";
pub(crate) const KEPT: &str = "no key is lost, none comes back, none holds what it must not";
pub(crate) const ONE_PLACE: &str = "no key is in two places";
pub(crate) const ONE_EPOCH: &str = "what is under way goes by the layout in force";
pub(crate) const NONE_LATE: &str = "who can reach the server serves the layout in force";
pub(crate) const SETTLED: &str = "what is settled is in its place";

type Condition = fn(&Moving, &World) -> bool;

const ALWAYS: [(&str, Condition); 6] = [
    (LINEARIZABLE, |_, world| world.history.is_linearizable()),
    (KEPT, |_, world| {
        let held = world.places.iter().find_map(|held| *held);
        !world.history.is_linearizable() || world.history.allows(held)
    }),
    (ONE_PLACE, |_, world| world.places.iter().flatten().count() <= 1),
    (ONE_EPOCH, |_, world| world.flights.iter().all(|flight| flight.layout == world.in_force)),
    (NONE_LATE, |_, world| {
        let mut serving = (0..world.processes.len()).filter_map(|index| world.serves(index));
        serving.all(|layout| layout == world.in_force)
    }),
    (SETTLED, |_, world| {
        let Route { new, old } = *world.route();
        let elsewhere = |place: usize| place != new as usize && old.is_none_or(|old| place != old as usize);
        (0..world.places.len()).filter(|place| elsewhere(*place)).all(|place| world.places[place].is_none())
    }),
];

fn is_over(model: &Moving, world: &World) -> bool {
    let layout = world.layouts.get(world.in_force);
    layout.stage + 1 == model.0.route.len() && !layout.in_doubt
}

/// All properties that can be seen within these bounds.
pub(crate) fn all(bounds: &Bounds) -> Vec<Property<Moving>> {
    let mut all: Vec<_> = ALWAYS.iter().map(|(name, condition)| Property::always(name, *condition)).collect();
    let mut reach = |name, condition: Condition| all.push(Property::sometimes(name, condition));
    reach("the move ends, and everybody serves its end", |model, world| {
        let count = world.processes.len();
        is_over(model, world) && (0..count).all(|index| world.serves(index) == Some(world.in_force))
    });
    reach("the mover and a client write at once", |_, world| {
        let writes = |mover: bool| {
            world.flights.iter().any(|flight| {
                matches!(flight.step, Step::Write(..) | Step::MoverWrite(_)) && (flight.who == Who::Mover) == mover
            })
        };
        writes(true) && writes(false)
    });
    if bounds.commands[0] > 0 {
        reach("a request is under way when the move is over", |model, world| {
            is_over(model, world) && world.flights.iter().any(|flight| flight.who != Who::Mover)
        });
    }
    if bounds.key_ticks > 0 {
        reach("a key expires while it is moved", |_, world| {
            let moving = world.route().old.is_some();
            moving && world.places.iter().flatten().any(|stored| stored.expires_at.is_some_and(|at| at <= world.now))
        });
    }
    if bounds.ticks_ms.contains(&crate::world::SILENCE_MS) && bounds.members > 1 {
        reach("the move ends without a member that was shut out", |model, world| {
            let shut_out =
                |process: &crate::world::Process| process.alive && process.connections == Connections::Closed;
            is_over(model, world) && world.processes.iter().any(shut_out)
        });
    }
    if bounds.losses.iter().any(|loss| matches!(loss, Loss::Register | Loss::SetBack | Loss::FailOver)) {
        reach("what was lost is put back, and the move ends", |model, world| {
            let mut before = Some(world.in_force);
            let mut was_in_doubt = false;
            while let Some(number) = before {
                let layout = world.layouts.get(number);
                was_in_doubt |= layout.before.is_some_and(|older| world.layouts.get(older).stage == layout.stage);
                before = layout.before;
            }
            is_over(model, world) && was_in_doubt
        });
    }
    if bounds.member_crashes > 0 {
        reach("the move ends without a member that crashed", |model, world| {
            is_over(model, world) && world.processes.iter().any(|process| !process.alive)
        });
    }
    if usize::from(bounds.changes) >= bounds.route.len() {
        reach("the move ends though a coordinator crashed", |model, world| {
            is_over(model, world) && usize::from(model.0.changes - world.left.changes) >= model.0.route.len()
        });
    }
    all
}
