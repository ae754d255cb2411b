//! Asks nodes of a cluster for its map, and wakes what waits for another.

use std::rc::Rc;
use std::time::Duration;

use keyfold_core::cluster::{Adoption, Endpoint, Topology};
use keyfold_core::resp::Protocol;
use tokio::task::spawn_local;

use super::clearance::look_for_all;
use super::cluster::Cluster;
use super::link::{Link, LinkError, reach};
use super::replicas::watch_replicas;
use crate::worker::Worker;

/// One node may take so much of the time to connect to say what it knows.
const SHARES: u32 = 4;

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

/// Asks one node after the other until one says what is gone by.
async fn refresh(worker: Rc<Worker>, cluster: Rc<Cluster>) {
    let mut nodes = cluster.nodes();
    let first = worker.nonces.draw() % nodes.len().max(1) as u64;
    nodes.rotate_left(usize::try_from(first).unwrap_or(0));
    let share = worker.config.timeouts.connect / SHARES;
    let mut taken = false;
    for node in nodes {
        let asked = cluster.ask();
        let said = tokio::time::timeout(share, ask(&worker, &node)).await.unwrap_or(Err(LinkError::TimedOut(share)));
        match said {
            Ok(topology) => match cluster.adopt(&topology, asked) {
                Adoption::Adopted { changed } => {
                    if changed {
                        cluster.refresh.borrow_mut().note_change(cluster.now_ms());
                        tracing::info!(by = %node, served = topology.served(), "the cluster's map is known");
                    }
                    taken = true;
                    break;
                }
                Adoption::Doubtful => tracing::debug!(%node, "a node doesn't take the cluster for whole"),
                Adoption::Older => tracing::debug!(%node, "a node knows of less than is known"),
            },
            Err(reason) => tracing::debug!(%node, %reason, "can't ask a node for the cluster's map"),
        }
    }
    if !taken {
        tracing::warn!("no node of the cluster says who has which slots; trying again");
    }
    cluster.refresh.borrow_mut().end(taken, cluster.now_ms(), worker.nonces.draw());
    cluster.stirred.notify_one();
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
