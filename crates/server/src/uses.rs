//! Asks a server who uses it and how: a handful of commands on each node, none of which walks over keys.

use keyfold_survey::uses::{Told, Uses};

use crate::connection::Server;
use crate::nodes::Nodes;

/// Asks all servers. What one refuses counts as unseen: half an answer would be taken for a whole one.
///
/// # Errors
/// A server doesn't answer.
pub fn ask(nodes: &mut Nodes) -> anyhow::Result<Uses> {
    let mut told = Told {
        commandstats: Some(String::new()),
        clients: Some(String::new()),
        notifications: Some(String::new()),
        listened: Some(Vec::new()),
        ..Told::default()
    };
    for server in nodes.servers() {
        ask_one(server, &mut told)?;
    }
    Ok(Uses::of(&told))
}

fn ask_one(server: &mut Server, told: &mut Told) -> anyhow::Result<()> {
    add(&mut told.commandstats, server.ask(&[b"INFO", b"commandstats"]).ok());
    add(&mut told.clients, server.ask(&[b"CLIENT", b"LIST"]).ok());
    match server.setting("notify-keyspace-events") {
        Ok(Some((_, value))) if told.notifications.as_deref() == Some("") => told.notifications = Some(value),
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => told.notifications = None,
    }
    match server.ask::<Vec<String>>(&[b"PUBSUB", b"CHANNELS", b"__key*"]) {
        Ok(channels) => told.listened.iter_mut().for_each(|all| all.extend(channels.iter().cloned())),
        Err(_) => told.listened = None,
    }
    let memory = server.info("memory")?;
    told.maxmemory = (memory.number("maxmemory"), memory.field("maxmemory_policy").unwrap_or("noeviction").to_owned());
    told.evicted_keys += server.info("stats")?.number("evicted_keys");
    Ok(())
}

/// One node's text behind the others'.
fn add(all: &mut Option<String>, one: Option<String>) {
    match (all.as_mut(), one) {
        (Some(all), Some(one)) => {
            all.push_str(&one);
            all.push('\n');
        }
        _ => *all = None,
    }
}
