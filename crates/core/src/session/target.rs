//! Which nodes of a cluster a request of a client goes to.

use std::collections::BTreeSet;

use crate::cluster::Target;
use crate::command::{Command, Id};
use crate::exchange::Env;
use crate::session::Session;
use crate::session::route::Route;
use crate::slot::Slot;

/// What a node answers to a request whose keys are in several slots.
const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

impl Session {
    /// Which nodes a request concerns; as an error where it can't be carried out before a cluster.
    pub(super) fn aim(
        &self,
        command: Option<&'static Command>,
        route: Route,
        args: &[&[u8]],
        env: &Env<'_>,
    ) -> (Route, Target) {
        let (Some(rules), Some(command)) = (env.cluster, command) else { return (route, Target::Any) };
        match route {
            Route::Queue(_) => match Target::of(command, args, false) {
                Target::CrossSlot | Target::Parts(_) => (Route::error(CROSS_SLOT), Target::Any),
                _ => (route, Target::Any),
            },
            Route::Exec { own } => match self.slot_of_transaction() {
                Ok(target) => (route, target),
                Err(message) => (Route::AbortExec { message, own }, Target::Any),
            },
            _ if route.is_local() || route.is_refusal() => (route, Target::Any),
            Route::Unblock { node: Some(ref node), .. } => {
                let node = Target::Node(node.clone());
                (route, node)
            }
            // These say by themselves where each of their steps goes.
            Route::Keyspace(Id::Keys | Id::Dbsize | Id::Randomkey | Id::Info) if self.front.before_cluster => {
                (route, Target::Any)
            }
            Route::OnOwnLane(Id::Wait | Id::Waitaof) => (route, Target::Shards),
            _ => match Target::of(command, args, rules.split_writes) {
                Target::CrossSlot => (Route::error(CROSS_SLOT), Target::Any),
                Target::Slot(slot) if command.id == Id::Watch && self.watched_slots().any(|known| known != slot) => {
                    (Route::error(CROSS_SLOT), Target::Any)
                }
                target => (route, target),
            },
        }
    }

    /// The one slot of all that is queued and watched.
    fn slot_of_transaction(&self) -> Result<Target, String> {
        let queued = self.queue.iter().flat_map(|queue| &queue.commands);
        let of_queue = queued.filter_map(|queued| {
            let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
            match Target::of(queued.command?, &args, false) {
                Target::Slot(slot) => Some(slot),
                _ => None,
            }
        });
        let slots: BTreeSet<_> = of_queue.chain(self.watched_slots()).collect();
        match slots.len() {
            0 => Ok(Target::Any),
            1 => Ok(slots.first().map_or(Target::Any, |slot| Target::Slot(*slot))),
            _ => Err(CROSS_SLOT.to_owned()),
        }
    }

    fn watched_slots(&self) -> impl Iterator<Item = Slot> {
        self.watched.iter().flat_map(|watched| watched.keys()).map(Slot::of)
    }
}
