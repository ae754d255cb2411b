//! Asks one node of a cluster for a client on a connection that nothing else is on meanwhile: what blocks, at several nodes
//! at once, and changes nothing that couldn't be done twice.
//!
//! It is none of the router's steps, which share a connection and keep an order: the client has no other request under way.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use keyfold_core::admin::wait_key;
use keyfold_core::cluster::{Node, Redirect};
use keyfold_core::drive::Progress;
use keyfold_core::resp::{Protocol, write_command};
use tokio::task::spawn_local;

use super::cluster::Cluster;
use super::link::{Link, LinkError};
use super::step::Whose;
use crate::worker::Worker;

/// So long after a refusal it is asked again, and so often it is looked whether the client is there.
const PAUSE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(500);

/// So many connections are kept for the next who ask.
const KEPT: usize = 16;

/// Connections between two who ask.
#[derive(Debug, Default)]
pub(crate) struct KeptLinks {
    links: RefCell<Vec<(Node, Link)>>,
}

impl KeptLinks {
    fn take(&self, node: Node) -> Option<Link> {
        let mut links = self.links.borrow_mut();
        let at = links.iter().position(|(known, _)| *known == node)?;
        Some(links.swap_remove(at).1)
    }

    fn keep(&self, node: Node, link: Link) {
        let mut links = self.links.borrow_mut();
        if links.len() >= KEPT {
            links.remove(0);
        }
        links.push((node, link));
    }
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// This node.
    Node(Node),
    /// This node, to which the slot is on its way; where it isn't any more, its owner.
    Importer(Node),
    /// The node that has the slot when it is asked.
    Owner,
}

/// Sends commands, the first of which may name keys of the slot of `whose`, and hands over the replies.
pub(crate) fn ask_alone(worker: &Rc<Worker>, cluster: &Rc<Cluster>, whom: Whom, whose: Whose, commands: Vec<u8>) {
    let (worker, cluster) = (Rc::clone(worker), Rc::clone(cluster));
    spawn_local(async move {
        let answered = tokio::select! {
            answered = until_answered(&worker, &cluster, whom, &whose, &commands) => answered,
            // The connection goes with it, and the node drops what blocks there.
            () = until_gone(&whose) => Err("the client has gone".to_owned()),
        };
        match answered {
            Ok(replies) => hand_over(&worker, &whose, &replies),
            Err(reason) => whose.lose(&reason),
        }
    });
}

fn hand_over(worker: &Worker, whose: &Whose, replies: &[Vec<u8>]) {
    for reply in replies {
        let mut wire = Vec::new();
        if worker.with_env(|env| whose.handle_reply(reply, env, &mut wire)) != Progress::Kept {
            return whose.lose("a node sent a reply of another kind than the command has");
        }
    }
}

async fn until_gone(whose: &Whose) {
    while !whose.client.is_gone() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Asks until a node answers, for as long as connecting may take. Who was asked for longer than that is not asked again.
async fn until_answered(
    worker: &Worker,
    cluster: &Rc<Cluster>,
    mut whom: Whom,
    whose: &Whose,
    commands: &[u8],
) -> Result<Vec<Vec<u8>>, String> {
    let (since, limit) = (Instant::now(), worker.config.timeouts.connect);
    loop {
        let node = match whom {
            Whom::Node(node) | Whom::Importer(node) => Some(node),
            Whom::Owner => cluster.node_of(whose.at),
        };
        let Some(node) = node else {
            cluster.doubt_map();
            if since.elapsed() > limit {
                return Err(format!("CLUSTERDOWN keyfold: no node has slot {}", whose.at));
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let is_importer = matches!(whom, Whom::Importer(_));
        match ask(worker, node, is_importer, whose, commands).await {
            // The one that has all of the slot is asked by its own name.
            Ok(None) => {
                cluster.forget_importer(node, whose.at);
                whom = Whom::Owner;
                continue;
            }
            Ok(Some(replies)) if !replies.iter().any(|reply| Redirect::read(reply).is_some()) => return Ok(replies),
            Ok(_) if since.elapsed() > limit => {
                return Err(format!(
                    "CLUSTERDOWN keyfold: the nodes say of each other that they have slot {}",
                    whose.at
                ));
            }
            Err(why) if since.elapsed() > limit => {
                let server = cluster.endpoint(node);
                return Err(format!("the connection to the server at {server} was lost ({why})"));
            }
            _ => cluster.doubt_map(),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The replies of a node; none where it is asked as one to which the slot is on its way, and that isn't so.
async fn ask(
    worker: &Worker,
    node: Node,
    is_importer: bool,
    whose: &Whose,
    commands: &[u8],
) -> Result<Option<Vec<Vec<u8>>>, LinkError> {
    let mut link = match worker.kept_links.take(node) {
        Some(link) => link,
        None => Link::open_unchecked(worker, Some(node), 0, Protocol::Resp2).await?,
    };
    let replies = usize::try_from(whose.replies).unwrap_or(usize::MAX);
    let answered = async {
        if !is_importer {
            return link.ask(commands, replies).await.map(Some);
        }
        let mut asking = Vec::new();
        write_command(&mut asking, &[b"ASKING"]);
        let mut look = asking.clone();
        write_command(&mut look, &[b"EXISTS", &wait_key(whose.at)]);
        let looked = link.ask(&look, 2).await?;
        match looked.last().and_then(|reply| Redirect::read(reply)) {
            Some(Redirect::Moved(..)) => return Ok(None),
            // It can't say at present.
            Some(_) => return Ok(Some(looked)),
            None => {}
        }
        let mut answered = link.ask(&[&asking, commands].concat(), 1 + replies).await?;
        Ok(Some(answered.split_off(1)))
    };
    let answered = match whose.patience {
        None => answered.await?,
        Some(limit) => match tokio::time::timeout(limit, answered).await {
            Ok(answered) => answered?,
            Err(_) => return Err(LinkError::TimedOut(limit)),
        },
    };
    worker.kept_links.keep(node, link);
    Ok(answered)
}
