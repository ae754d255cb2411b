//! Asks a cluster's nodes how far replication is, so that the core knows which replicas may be read from.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use keyfold_core::cluster::{Node, ReplicationAsked};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::cluster::Cluster;
use super::errand::Errand;
use super::link::LinkError;
use crate::worker::Worker;

/// What came of a question.
struct Heard {
    node: Node,
    /// The node's primary; none of a primary.
    of: Option<Node>,
    asked: ReplicationAsked,
    reply: Result<(Vec<u8>, Duration), LinkError>,
    errand: Errand,
}

/// Asks all nodes some times a second, for as long as the worker lives. One that doesn't answer holds up no other.
pub(super) async fn watch_replicas(worker: Rc<Worker>, cluster: Rc<Cluster>) {
    if !cluster.replicas.borrow().are_wanted() {
        return;
    }
    cluster.until_known().await;
    let period = Duration::from_millis(cluster.replicas.borrow().period_ms().unsigned_abs());
    let mut ticker = tokio::time::interval(period);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (sender, mut heard) = mpsc::unbounded_channel::<Heard>();
    // Those that are not under way; none of nodes that have one under way.
    let mut errands: BTreeMap<Node, Option<Errand>> = BTreeMap::new();
    loop {
        tokio::select! {
            _ = ticker.tick() => {
                show(&worker, &cluster);
                let nodes = nodes(&cluster);
                errands.retain(|node, _| nodes.contains_key(node));
                cluster.replicas.borrow_mut().keep(|node| nodes.contains_key(&node));
                for (node, of) in nodes {
                    let new = || Some(Errand::new(Rc::clone(&worker)).unchecked().at_node(Some(node)));
                    if let Some(errand) = errands.entry(node).or_insert_with(new).take() {
                        spawn_local(ask(errand, node, of, Rc::clone(&cluster), sender.clone()));
                    }
                }
            }
            Some(answer) = heard.recv() => {
                let Heard { node, of, asked, reply, errand } = answer;
                errands.entry(node).and_modify(|known| *known = Some(errand));
                note(&cluster, node, of, asked, reply);
            }
        }
    }
}

/// All nodes, with the primary of each that is none.
fn nodes(cluster: &Cluster) -> BTreeMap<Node, Option<Node>> {
    let mut nodes = BTreeMap::new();
    for (primary, replicas) in cluster.shards_with_replicas() {
        nodes.extend(replicas.into_iter().map(|replica| (replica, Some(primary))));
        nodes.insert(primary, None);
    }
    nodes
}

async fn ask(
    mut errand: Errand,
    node: Node,
    of: Option<Node>,
    cluster: Rc<Cluster>,
    heard: mpsc::UnboundedSender<Heard>,
) {
    // To connect is no part of a round trip.
    let connected = errand.connect().await;
    let mut question = Vec::new();
    let asked = cluster.replicas.borrow().ask(cluster.now_ms(), &mut question);
    let since = Instant::now();
    let reply = match connected {
        Ok(()) => {
            errand.request(&question, 1).await.map(|mut replies| (replies.pop().unwrap_or_default(), since.elapsed()))
        }
        Err(why) => Err(why),
    };
    let _ = heard.send(Heard { node, of, asked, reply, errand });
}

fn note(
    cluster: &Cluster,
    node: Node,
    of: Option<Node>,
    asked: ReplicationAsked,
    reply: Result<(Vec<u8>, Duration), LinkError>,
) {
    let mut replicas = cluster.replicas.borrow_mut();
    match reply {
        Ok((reply, took)) => {
            replicas.note_round_trip(node, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            let is_as_known = match of {
                None => replicas.hear_primary(node, asked, &reply),
                Some(of) => replicas.hear_replica(node, of, asked, &reply),
            };
            if !is_as_known {
                cluster.doubt_map();
            }
        }
        Err(why) => replicas.note_away(node, &format!("can't ask it: {why}")),
    }
}

/// Has INFO show what is known.
fn show(worker: &Worker, cluster: &Cluster) {
    let states = cluster.replicas.borrow_mut().take_states(cluster.now_ms());
    let with_addresses =
        states.into_iter().map(|state| (cluster.endpoint(state.node), cluster.endpoint(state.of), state));
    worker.folding.borrow().namespaces.replicas().note(worker.config.read_from, with_addresses.collect());
}
