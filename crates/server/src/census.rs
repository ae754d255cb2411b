//! What all nodes of a cluster say at one moment, replicas and primaries without slots included: what a walk over the
//! primaries proves hangs on that ([`keyfold_core::cluster::proof`]).

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::cluster::{History, Picture, PictureNode};
use keyfold_core::resp::Reply;
use keyfold_core::server_info::info_field;

use crate::cluster_nodes::ClusterNode;
use crate::connection::Server;
use crate::node::at;
use crate::nodes::{Nodes, read_nodes};

/// How long a node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How often replicas are asked how far they are.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// What a move of slots by the server itself says that is over.
const OVER: [&[u8]; 5] = [b"success", b"completed", b"failed", b"cancelled", b"canceled"];

/// Who is asked beside the primaries that are walked over: each on a connection of its own, by its ID.
#[derive(Default)]
pub struct Census {
    others: BTreeMap<String, Server>,
    addresses: BTreeMap<String, String>,
}

impl Census {
    /// What all nodes say now. The primaries are asked on their connections of `nodes`, so that an answer of all says that
    /// these live.
    ///
    /// # Errors
    /// A node that the cluster doesn't take for gone doesn't answer.
    pub fn picture(&mut self, nodes: &mut Nodes) -> anyhow::Result<Picture<String>> {
        let target = nodes.target().clone();
        let mut picture = Picture { epoch: 0, nodes: BTreeMap::new(), has_slots_on_their_way: false };
        let mut endpoints = BTreeMap::new();
        let note = |server: &mut Server, picture: &mut Picture<String>| -> anyhow::Result<Vec<ClusterNode>> {
            let seen = read_nodes(server, &target)?;
            picture.epoch = picture.epoch.max(epoch(server)?);
            picture.has_slots_on_their_way |= moves_slots(server)?;
            seen.iter().for_each(|node| take(picture, node));
            Ok(seen)
        };
        let mut asked = Vec::new();
        for server in nodes.servers() {
            for node in note(server, &mut picture)? {
                if node.is_myself {
                    asked.push(node.id.clone());
                }
                self.addresses.insert(node.id.clone(), node.endpoint.to_string());
                endpoints.insert(node.id, node.endpoint);
            }
        }
        let left: Vec<_> = endpoints.into_iter().filter(|(id, _)| !asked.contains(id)).collect();
        for (id, endpoint) in left {
            if picture.nodes.get(&id).is_some_and(|node| node.is_gone) {
                continue;
            }
            let target = crate::Target { address: at(&target.address, &endpoint), ..target.clone() };
            let is_away = || format!("the node {endpoint} is away");
            let mut server = match self.others.remove(&id) {
                Some(server) => server,
                None => Server::connect_to_node(&target).with_context(is_away)?,
            };
            server.set_patience(ANSWER_WITHIN)?;
            note(&mut server, &mut picture).with_context(is_away)?;
            self.others.insert(id, server);
        }
        Ok(picture)
    }

    /// Where a node is.
    pub fn address(&self, id: &str) -> String {
        self.addresses.get(id).cloned().unwrap_or_else(|| format!("with the ID {id}"))
    }

    /// How far the primaries are, by their IDs, asked on their connections of `nodes`.
    ///
    /// # Errors
    /// One of them doesn't answer, or is a replica by now.
    pub fn primaries(nodes: &mut Nodes) -> anyhow::Result<BTreeMap<String, History>> {
        let mut ends = BTreeMap::new();
        for server in nodes.servers() {
            let id: String = server.ask(&[b"CLUSTER", b"MYID"])?;
            let info = server.info("replication")?;
            if info.field("role") != Some("master") {
                bail!("the node at {} is no primary any more", server.address());
            }
            let id_of_stream = info.needed("master_replid")?;
            ends.insert(id, History { id: id_of_stream, offset: info.needed("master_repl_offset")? });
        }
        Ok(ends)
    }

    /// How far the replicas of a picture are, once each of them has all that its primary had at these `ends`, or so much
    /// time is over.
    ///
    /// # Errors
    /// One of them doesn't answer.
    pub fn replicas(
        &mut self,
        picture: &Picture<String>,
        ends: &BTreeMap<String, History>,
        within: Duration,
    ) -> anyhow::Result<BTreeMap<String, History>> {
        let since = Instant::now();
        let mut replicas = BTreeMap::new();
        for (id, primary) in picture.replicas() {
            let Some((server, end)) = self.others.get_mut(id).zip(ends.get(primary)) else { continue };
            loop {
                let history = history_of_replica(server)?;
                let has_all = history.as_ref().is_some_and(|history| history.has(end));
                if has_all || since.elapsed() > within {
                    replicas.extend(history.map(|history| (id.clone(), history)));
                    break;
                }
                thread::sleep(ASK_AGAIN);
            }
        }
        Ok(replicas)
    }
}

/// By its own word a node is known best; that another takes it for gone counts whoever says so.
fn take(picture: &mut Picture<String>, node: &ClusterNode) {
    picture.has_slots_on_their_way |= !node.migrating.is_empty() || !node.importing.is_empty();
    let is_known = picture.nodes.contains_key(&node.id);
    let seen = picture.nodes.entry(node.id.clone()).or_insert_with(|| PictureNode {
        follows: None,
        slots: Vec::new(),
        is_gone: false,
    });
    seen.is_gone |= node.is_failing;
    if node.is_myself || !is_known {
        (seen.follows, seen.slots) = (node.follows.clone(), node.slots.clone());
    }
}

fn epoch(server: &mut Server) -> anyhow::Result<u64> {
    let info: String = server.ask(&[b"CLUSTER", b"INFO"])?;
    info_field(&info, "cluster_current_epoch")
        .and_then(|epoch| epoch.parse().ok())
        .with_context(|| format!("the node at {} says no cluster_current_epoch", server.address()))
}

/// None where it isn't one, or has no link to its primary: then it has a state of its own.
fn history_of_replica(server: &mut Server) -> anyhow::Result<Option<History>> {
    let info = server.info("replication")?;
    if info.field("role") != Some("slave") || info.field("master_link_status") != Some("up") {
        return Ok(None);
    }
    Ok(Some(History { id: info.needed("master_replid")?, offset: info.needed("slave_repl_offset")? }))
}

/// Whether the server itself moves slots from or to this node, all keys at once: CLUSTER NODES doesn't say so. Valkey from
/// 9.0 on lists such moves at both ends (CLUSTER GETSLOTMIGRATIONS), Redis from 8.4 on too (CLUSTER MIGRATION STATUS).
fn moves_slots(server: &mut Server) -> anyhow::Result<bool> {
    let mut is_moving = false;
    for command in [&[&b"CLUSTER"[..], b"GETSLOTMIGRATIONS"][..], &[b"CLUSTER", b"MIGRATION", b"STATUS", b"ALL"]] {
        let mut wire = crate::Commands::default();
        wire.push(command);
        let replies = server.ask_all(&wire)?;
        let said = replies.first().map_or(&[][..], Vec::as_slice);
        match Reply::parse(said) {
            Ok(Reply::Array(mut moves)) => {
                let is_under_way = |one| state_of(one).is_some_and(|state| !OVER.contains(&state));
                is_moving |= moves.any(is_under_way);
            }
            Ok(Reply::Error(error)) if error.starts_with(b"NOPERM") => {
                bail!("{}", String::from_utf8_lossy(error))
            }
            // A server that has no such moves doesn't know the command.
            _ => {}
        }
    }
    Ok(is_moving)
}

fn state_of(one: Reply<'_>) -> Option<&[u8]> {
    let Reply::Array(fields) = one else { return None };
    let words: Vec<&[u8]> = fields.map(|word| word.bytes().unwrap_or_default()).collect();
    words.chunks_exact(2).find(|pair| pair[0] == b"state").map(|pair| pair[1])
}
