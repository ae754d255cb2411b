//! The codec slots of namespaces whose layout was lost: as they are recorded beside the dictionaries, or else as values
//! name them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use keyfold_core::admin::DICTIONARIES_KEY;
use keyfold_core::codec::Codecs;
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Heads, read_slots, slots_field};
use keyfold_core::placement::name::{Head, Mark, Stem};
use keyfold_core::resp::Reply;
use keyfold_server::keyspace;
use keyfold_server::{Commands, Server};

use super::heads;

/// So much of a value's beginning says by which slot it is stored.
const FRAME_HEAD_BYTES: &[u8] = b"31";

/// The slots that are recorded. Leaves the connection in database 0.
pub(crate) fn recorded(server: &mut Server) -> anyhow::Result<BTreeMap<Stem, Codecs>> {
    server.select(0)?;
    let fields: Vec<Vec<u8>> = server.ask(&[b"HKEYS", DICTIONARIES_KEY])?;
    let mut slots = BTreeMap::new();
    for (field, stem) in fields.iter().filter_map(|field| Some((field, slots_field(field)?))) {
        let text: Option<Vec<u8>> = server.ask(&[b"HGET", DICTIONARIES_KEY, field])?;
        let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
        let codecs = read_slots(&text).with_context(|| {
            format!("the field \"{}\" of keyfold:{{home}}:dictionaries is damaged", field.escape_ascii())
        })?;
        slots.insert(stem, codecs);
    }
    Ok(slots)
}

/// Adds what can be said of the slots of `heads` that aren't recorded: the numbers that their values name are kept from
/// ever meaning something else. That reads every value of theirs.
pub(crate) fn complete(
    servers: &mut [Server],
    heads: &Heads,
    slots: &mut BTreeMap<Stem, Codecs>,
) -> anyhow::Result<()> {
    let unknown: BTreeSet<Stem> = heads.iter().map(|(stem, _)| stem).filter(|stem| !slots.contains_key(stem)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    for server in servers {
        keyspace::each_page(server, &heads::names(), &mut |server, _, names| {
            note_slots(server, &names, &unknown, slots)
        })?;
    }
    Ok(())
}

fn note_slots(
    server: &mut Server,
    names: &[Vec<u8>],
    unknown: &BTreeSet<Stem>,
    slots: &mut BTreeMap<Stem, Codecs>,
) -> anyhow::Result<()> {
    let heads = names.iter().filter_map(|name| Some((Head::decode(name)?, name)));
    let wanted: Vec<_> = heads.filter(|(head, _)| unknown.contains(&head.origin.stem)).collect();
    let mut commands = Commands::default();
    for (head, name) in &wanted {
        match head.mark {
            Mark::Bucket | Mark::WholeBucket => commands.push(&[b"HVALS", name]),
            Mark::Part => commands.push(&[b"TYPE", name]),
            Mark::Zipped | Mark::Spill => commands.push(&[b"GETRANGE", name, b"0", FRAME_HEAD_BYTES]),
        }
    }
    for ((head, _), reply) in wanted.iter().zip(server.ask_all(&commands)?) {
        let mut note = |stored: &[u8]| {
            if let Some(number) = slot_of(stored) {
                slots.entry(head.origin.stem).or_default().reserve(number);
            }
        };
        match Reply::parse(&reply) {
            Ok(Reply::Array(values)) => values.filter_map(Reply::bytes).for_each(note),
            // What is spilled is no frame: its slot stands where it is pointed to.
            Ok(Reply::Bulk(stored)) if head.mark == Mark::Zipped => note(stored),
            _ => {}
        }
    }
    Ok(())
}

fn slot_of(stored: &[u8]) -> Option<u8> {
    match Frame::decode(stored).ok()?.body {
        Body::Coded { slot, .. } => Some(slot),
        Body::Spill { slot, .. } => slot,
        Body::Raw(_) | Body::Integer(_) | Body::Parts { .. } => None,
    }
}
