//! Asks nodes of a cluster for its map, and wakes what waits for another.

use std::rc::Rc;
use std::time::Duration;

use keyfold_core::cluster::{Adoption, Asked, AskedAt, Endpoint, Topology};
use keyfold_core::resp::Protocol;
use tokio::task::{JoinSet, spawn_local};

use super::clearance::look_for_all;
use super::cluster::Cluster;
use super::link::{Link, LinkError, reach};
use super::replicas::watch_replicas;
use crate::worker::Worker;

/// One node may take so much of the time to connect to say what it knows.
const SHARES: u32 = 4;
/// The next node is asked meanwhile where one takes longer than this.
const PATIENCE: Duration = Duration::from_millis(50);

/// Looks after a cluster for as long as the worker lives.
pub(crate) async fn keep(worker: Rc<Worker>, cluster: Rc<Cluster>) {
    spawn_local(look_for_all(Rc::clone(&worker)));
    spawn_local(watch_replicas(Rc::clone(&worker), Rc::clone(&cluster)));
    loop {
        cluster.carry_out(&worker);
        let now_ms = cluster.now_ms();
        let is_due = cluster.refresh.borrow_mut().begin(now_ms);
        if is_due {
            spawn_local(refresh(Rc::clone(&worker), Rc::clone(&cluster)));
        }
        let stirred = cluster.stirred.notified();
        match cluster.next_ms() {
            None => stirred.await,
            Some(next_ms) => {
                let pause = Duration::from_millis(u64::try_from(next_ms - now_ms).unwrap_or(0));
                let _ = tokio::time::timeout(pause.max(Duration::from_millis(1)), stirred).await;
            }
        }
    }
}

/// Asks nodes until one says what is gone by. The next is asked once one has said something else, or takes its time.
async fn refresh(worker: Rc<Worker>, cluster: Rc<Cluster>) {
    let mut nodes = cluster.nodes();
    let first = worker.nonces.draw() % nodes.len().max(1) as u64;
    nodes.rotate_left(usize::try_from(first).unwrap_or(0));
    let mut nodes = nodes.into_iter();
    let (mut under_way, mut outcome) = (JoinSet::new(), Asked::Away);
    let mut next = tokio::time::interval(PATIENCE);
    while outcome != Asked::Taken {
        tokio::select! {
            Some(said) = under_way.join_next() => {
                if let Ok((node, asked, said)) = said {
                    outcome = hear(&cluster, &node, asked, said).unwrap_or(outcome);
                }
                next.reset_immediately();
            }
            _ = next.tick(), if nodes.len() > 0 => {
                if let Some(node) = nodes.next() {
                    let (worker, asked) = (Rc::clone(&worker), cluster.ask());
                    under_way.spawn_local(async move {
                        let limit = worker.config.timeouts.connect / SHARES;
                        let said = tokio::time::timeout(limit, ask(&worker, &node)).await;
                        (node, asked, said.unwrap_or(Err(LinkError::TimedOut(limit))))
                    });
                }
            }
            else => break,
        }
    }
    if cluster.refresh.borrow_mut().end(outcome, cluster.now_ms(), worker.nonces.draw()) {
        tracing::warn!("no node of the cluster says who has which slots; trying again");
    }
    cluster.stirred.notify_one();
}

/// What a node's word comes to; none where it has said nothing.
fn hear(cluster: &Cluster, node: &Endpoint, asked: AskedAt, said: Result<Topology, LinkError>) -> Option<Asked> {
    let topology = said.inspect_err(|reason| tracing::debug!(%node, %reason, "can't ask a node for the cluster's map"));
    let topology = topology.ok()?;
    Some(match cluster.adopt(&topology, asked) {
        Adoption::Adopted { changed } => {
            if changed {
                cluster.refresh.borrow_mut().note_change(cluster.now_ms());
                tracing::info!(by = %node, served = topology.served(), "the cluster's map is known");
            }
            Asked::Taken
        }
        Adoption::Doubtful => {
            tracing::debug!(%node, "a node doesn't take the cluster for whole");
            Asked::Unsettled
        }
        Adoption::Foreign => {
            tracing::error!(
                %node,
                "this node belongs to another cluster: it knows none of the nodes that have been served so far, so what it says is passed over. \
                 Should all of them have been set up anew, restart keyfold"
            );
            Asked::Unsettled
        }
        Adoption::Older => {
            tracing::debug!(%node, "a node knows of less than is known");
            Asked::Unsettled
        }
    })
}

async fn ask(worker: &Worker, node: &Endpoint) -> Result<Topology, LinkError> {
    let tls = worker.config.upstream.speaks_tls();
    let mut link = Link::on(reach(worker, &node.host, node.port, tls).await?);
    link.greet(worker, Protocol::Resp2).await?;
    let mut questions = Vec::new();
    let replies = Topology::ask(&mut questions);
    let answers = link.ask(&questions, replies).await?;
    Topology::read(&answers, node, &worker.config.addresses).map_err(|error| LinkError::Refused(error.to_string()))
}
