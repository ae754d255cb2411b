//! Handmade hashes before keys are moved out of them: what stands against it.
//!
//! A hash that expires takes all its keys at once, and a field that expires takes its TTL along to nowhere; a key of
//! another type under a hash's name would answer errors to whoever looks for a key there. So none of them is moved.

use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::resp::Reply;
use keyfold_report::number::plural;
use keyfold_server::reply::read_if;
use keyfold_server::{Commands, Server};

use super::Family;
use crate::records::inquiry::Fields;

/// Examples that are kept of each.
const KEPT: usize = 3;
/// Fields of which one command asks for the TTL.
const FIELDS_AT_ONCE: usize = 1000;

/// Some of what was counted.
#[derive(Clone, Debug, Default)]
struct Counted {
    count: u64,
    examples: Vec<String>,
}

impl Counted {
    fn note(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < KEPT {
            self.examples.push(example());
        }
    }

    fn said(&self, what: &str) -> Option<String> {
        (self.count > 0).then(|| format!("{}, such as {}", plural(self.count, what), self.examples.join(", ")))
    }
}

/// What is amiss with the handmade hashes of one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes {
    others: Counted,
    expiring: Counted,
    expiring_fields: Counted,
    /// Fields of those that were read, which are a sample.
    read: u64,
    /// Of these the places of no key.
    no_keys: Counted,
}

/// More than one field in so many that is the place of no key means that the hashes are packed otherwise.
const STRAYS: u64 = 10;

impl Hashes {
    /// Notes that so many fields of a handmade hash were read.
    pub(super) fn note_read(&mut self, fields: usize) {
        self.read += fields as u64;
    }

    /// Notes one of them that is the place of no key.
    pub(super) fn note_no_key(&mut self, hash: &[u8], field: &[u8]) {
        self.no_keys.note(|| format!("\"{}\" of \"{}\"", field.escape_ascii(), hash.escape_ascii()));
    }

    /// Where keys are moved out of them already, these are most of what is left.
    fn are_packed_otherwise(&self, moves_already: bool) -> bool {
        !moves_already && self.no_keys.count.saturating_mul(STRAYS) > self.read
    }

    /// What must be mended before keys are moved, or go on being moved.
    pub(super) fn obstacles(&self, moves_already: bool) -> impl Iterator<Item = String> {
        let others = self.others.said("key").map(|keys| {
            format!(
                "{keys}: called as the hashes are that keys are moved out of, and of another type; rename them first"
            )
        });
        let expiring = self.expiring.said("hash").map(|hashes| {
            format!(
                "{hashes}: with a TTL, which would take all its keys at once; keyfold gives a TTL to each key. Take it \
                 off (PERSIST), and set it on the keys that shall expire once they are moved"
            )
        });
        let fields = self.expiring_fields.said("hash").map(|hashes| {
            format!(
                "{hashes}: with fields that have a TTL of their own, which would be lost. Take it off (HPERSIST) first"
            )
        });
        let strays = self.no_keys.said("field").filter(|_| self.are_packed_otherwise(moves_already)).map(|strays| {
            format!(
                "of {} read: {strays}, the place of no key by this packing, so that clients of keyfold would see none of \
                 them. Say with --keys and --field how the hashes are packed: what ids are divided by, and which part \
                 of the id the field is (docs/sources.md)",
                plural(self.read, "field")
            )
        });
        others.into_iter().chain(expiring).chain(fields).chain(strays)
    }

    /// What stays where it is.
    pub(super) fn warning(&self, moves_already: bool) -> Option<String> {
        let fields = self.no_keys.said("field").filter(|_| !self.are_packed_otherwise(moves_already))?;
        Some(format!("{fields}, in the sample of hashes that was read: the place of no key; they stay, and are listed"))
    }
}

/// Notes which of these handmade hashes, each given with its fields, have fields with a TTL.
pub(super) fn look_for_field_ttls<'b>(
    server: &mut Server,
    buckets: impl Iterator<Item = (&'b (NamespaceIndex, Vec<u8>), &'b Fields)>,
    families: &mut BTreeMap<usize, Family>,
) -> anyhow::Result<()> {
    let (mut commands, mut asked) = (Commands::default(), Vec::new());
    for (bucket, fields) in buckets {
        let fields: Vec<&[u8]> = fields.keys().map(Vec::as_slice).collect();
        for fields in fields.chunks(FIELDS_AT_ONCE) {
            commands
                .push(&[&[&b"HTTL"[..], &bucket.1, b"FIELDS", fields.len().to_string().as_bytes()], fields].concat());
            asked.push(bucket);
        }
    }
    let left = server.ask_all(&commands)?.into_iter().map(|raw| read_if::<Vec<i64>>(&raw).unwrap_or_default());
    let expiring = asked.into_iter().zip(left).filter(|(_, left)| left.iter().any(|seconds| *seconds >= 0));
    for (namespace, name) in expiring.map(|(bucket, _)| bucket).collect::<BTreeSet<_>>() {
        let hashes = &mut families.entry(namespace.0).or_default().hashes;
        hashes.expiring_fields.note(|| format!("\"{}\"", name.escape_ascii()));
    }
    Ok(())
}

/// These buckets without what only has the name of a handmade one; notes what is amiss.
pub(super) fn leave_out_others(
    server: &mut Server,
    layout: &Layout,
    buckets: &[(NamespaceIndex, Vec<u8>)],
    families: &mut BTreeMap<usize, Family>,
) -> anyhow::Result<Vec<(NamespaceIndex, Vec<u8>)>> {
    let (handmade, mut kept): (Vec<_>, Vec<_>) =
        buckets.iter().cloned().partition(|(_, name)| layout.packing_in(name).is_some());
    if handmade.is_empty() {
        return Ok(kept);
    }
    let mut commands = Commands::default();
    for (_, name) in &handmade {
        commands.push(&[b"TYPE", name]);
        commands.push(&[b"PTTL", name]);
    }
    let replies = server.ask_all(&commands)?;
    for ((namespace, name), replies) in handmade.into_iter().zip(replies.chunks_exact(2)) {
        let hashes = &mut families.entry(namespace.0).or_default().hashes;
        let shown = || format!("\"{}\"", name.escape_ascii());
        match Reply::parse(&replies[0]) {
            Ok(Reply::Simple(b"none")) => {}
            Ok(Reply::Simple(b"hash")) => {
                if matches!(Reply::parse(&replies[1]), Ok(Reply::Integer(left)) if left >= 0) {
                    hashes.expiring.note(shown);
                }
                kept.push((namespace, name));
            }
            _ => hashes.others.note(shown),
        }
    }
    Ok(kept)
}
