//! Asks home and witnesses of a cluster whether new connections may be used, for all of a worker's at once.
//!
//! A connection is named, and then waits for a look that begins after that; those that come while one is under way share
//! the next. So however many there are, nodes are asked one question at a time. A node that doesn't answer is waited for
//! by nobody else: the word of two others is enough.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use keyfold_core::change::{Clearance, Look};
use keyfold_core::cluster::Node;
use keyfold_core::slot::Slot;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::errand::Errand;
use super::link::LinkError;
use crate::worker::Worker;

/// What came of a question.
struct Heard {
    slot: Slot,
    /// In which look it was asked.
    look: u64,
    reply: Result<(Node, Vec<u8>), LinkError>,
    errand: Errand,
}

/// Looks whenever somebody waits, for as long as the worker lives.
pub(super) async fn look_for_all(worker: Rc<Worker>) {
    let Some(cluster) = worker.cluster.get().map(Rc::clone) else { return };
    let (sender, mut heard) = mpsc::unbounded_channel::<Heard>();
    // Those that are not under way.
    let mut errands = BTreeMap::new();
    for number in 0_u64.. {
        let waiting = cluster.lookout.wanted().await;
        let folding = Arc::clone(&worker.folding.borrow());
        let mut look = Look::begin();
        for slot in Look::<Node>::slots() {
            let known = errands.remove(&slot);
            let errand = known.unwrap_or_else(|| Errand::new(Rc::clone(&worker)).unchecked().at_slot(slot));
            spawn_local(ask(errand, slot, number, sender.clone()));
        }
        while look.clearance() == Clearance::Waiting {
            let Some(Heard { slot, look: asked, reply, errand }) = heard.recv().await else { return };
            errands.insert(slot, errand);
            match reply {
                _ if asked != number => {}
                Ok((node, reply)) => {
                    look.hear(slot, node, &reply, |layout, copy| folding.is_in_force(layout, copy));
                }
                Err(why) => look.is_away(slot, &why.to_string()),
            }
        }
        // What was heard was held against another layout than is served now.
        let is_served = Arc::ptr_eq(&folding, &worker.folding.borrow());
        let clearance = if is_served { look.clearance() } else { Clearance::Later };
        for waits in waiting {
            let _ = waits.send(clearance.clone());
        }
    }
}

async fn ask(mut errand: Errand, slot: Slot, look: u64, heard: mpsc::UnboundedSender<Heard>) {
    let mut question = Vec::new();
    Look::<Node>::ask(slot, &mut question);
    let reply = errand.ask_node(&question).await;
    let _ = heard.send(Heard { slot, look, reply, errand });
}
