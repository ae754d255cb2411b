//! Reads keys, wherever they lie, into a space: one round trip, and a second where values are spilled.

use std::collections::{BTreeMap, BTreeSet};

use crate::exchange::Env;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::key::{Found, Key};
use crate::layout::spill_name;
use crate::resp::Reply;
use crate::string::Space;

/// How a load goes on after a reply.
#[derive(Debug)]
pub(crate) enum Loading {
    /// More replies are outstanding.
    Wait,
    /// More commands were written, with so many replies.
    More(u32),
    /// All keys are read.
    Ready,
    /// The server answered this error, as it came.
    Failed(Vec<u8>),
}

/// A key of a load, and one of its spots.
type SpotIndex = (usize, usize);

/// The reading of a set of keys.
#[derive(Debug)]
pub(crate) struct Load {
    keys: Vec<Key>,
    batch: Option<Batch>,
    /// The bucket of each HMGET, as the spots in it; a native key alone.
    groups: Vec<Vec<SpotIndex>>,
    /// The spots whose spilled values are being read.
    spills: Vec<SpotIndex>,
    /// Pointers that were read and pointed to nothing.
    dangling: BTreeSet<u64>,
    /// Within a WATCH, EXEC would end it; there the watch keeps what is read together.
    watched: bool,
    /// TYPE isn't asked.
    taken_for_strings: bool,
    has_pexpiretime: bool,
}

impl Load {
    /// A load of these keys, each named once however often it is in `logical`.
    pub(crate) fn new<'a>(env: &Env<'_>, logical: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut seen = BTreeSet::new();
        let keys: Vec<Key> = logical.filter(|key| seen.insert(*key)).map(|key| Key::locate(env.layout, key)).collect();
        let groups = group_by_bucket(&keys);
        let has_pexpiretime = env.server.major() >= 7;
        Self {
            keys,
            batch: None,
            groups,
            spills: Vec::new(),
            dangling: BTreeSet::new(),
            watched: false,
            taken_for_strings: false,
            has_pexpiretime,
        }
    }

    /// The same, on a connection that watches the keys.
    pub(crate) fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// A load of the places that keys which are moving had before. What is in their new places isn't read, and
    /// taken for nothing: whoever writes by it checks that. The type of a key of its own isn't asked; one that is no
    /// string is of a type without a name.
    pub(crate) fn of_old_places<'a>(env: &Env<'_>, logical: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut load = Self::new(env, logical).watched();
        for group in &mut load.groups {
            group.retain(|(_, spot)| *spot > 0);
        }
        load.groups.retain(|group| !group.is_empty());
        load.taken_for_strings = true;
        load
    }

    /// The keys, in the order they were first named.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Sends the reads; how many replies they have.
    pub(crate) fn send(&mut self, wire: &mut Vec<u8>) -> u32 {
        let mut commands = Commands::default();
        for group in &self.groups {
            let (key, spot) = group[0];
            let first = &self.keys[key].spots[spot];
            match first.bucket() {
                Some(place) if group.len() == 1 => commands.push(&[b"HGET", &place.physical, &place.field]),
                Some(place) => {
                    let fields = group.iter().filter_map(|(key, spot)| self.keys[*key].spots[*spot].bucket());
                    let mut args: Vec<&[u8]> = vec![b"HMGET", &place.physical];
                    args.extend(fields.map(|place| place.field.as_slice()));
                    commands.push(&args);
                }
                None => {
                    let physical = first.physical(&self.keys[key].logical);
                    if !self.taken_for_strings {
                        commands.push(&[b"TYPE", physical]);
                    }
                    commands.push(&[b"GET", physical]);
                    commands.push(&[if self.has_pexpiretime { b"PEXPIRETIME" } else { b"PTTL" }, physical]);
                }
            }
        }
        self.spills.clear();
        self.send_batch(&commands, wire)
    }

    fn send_batch(&mut self, commands: &Commands, wire: &mut Vec<u8>) -> u32 {
        let batch = if self.watched { Batch::send(commands, wire) } else { Batch::send_atomic(commands, wire) };
        let replies = batch.left();
        self.batch = Some(batch);
        replies
    }

    /// Takes the next reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, wire: &mut Vec<u8>) -> Loading {
        let Some(batch) = &mut self.batch else { return Loading::Ready };
        if !batch.handle_reply(reply) {
            return Loading::Wait;
        }
        let replies = match batch.take() {
            Ok(replies) => replies,
            Err(error) => return Loading::Failed(error),
        };
        let loading = if self.spills.is_empty() {
            match self.take_found(&replies, env.now_ms) {
                Ok(()) => self.read_spills(wire),
                Err(error) => Loading::Failed(error),
            }
        } else {
            self.take_spills(&replies, wire)
        };
        if matches!(loading, Loading::Ready) {
            for Key { logical, spots } in &mut self.keys {
                spots.iter_mut().for_each(|spot| spot.decode(logical, env));
            }
        }
        loading
    }

    fn take_found(&mut self, replies: &[Vec<u8>], now_ms: i64) -> Result<(), Vec<u8>> {
        let mut replies = replies.iter();
        let mut next = || replies.next().map_or(&b"-ERR keyfold: a reply is missing\r\n"[..], Vec::as_slice);
        for group in &self.groups {
            let (key, spot) = group[0];
            let first = &mut self.keys[key].spots[spot];
            if first.bucket().is_none() {
                let kind = if self.taken_for_strings { UNASKED_TYPE } else { next() };
                let found = read_native([kind, next(), next()], self.has_pexpiretime, now_ms)?;
                first.found = found;
                continue;
            }
            let raw = next();
            let fields: Vec<Reply<'_>> = match Reply::parse(raw) {
                Ok(Reply::Error(_)) | Err(_) => return Err(raw.to_vec()),
                Ok(Reply::Array(elements)) => elements.collect(),
                Ok(field) => vec![field],
            };
            for ((key, spot), field) in group.iter().zip(fields) {
                self.keys[*key].spots[*spot].found = field
                    .bytes()
                    .map_or(Found::Nothing, |bytes| Found::Field { stored: bytes.to_vec(), spilled: None });
            }
        }
        Ok(())
    }

    /// Reads the spilled values that were pointed to, where there are any.
    fn read_spills(&mut self, wire: &mut Vec<u8>) -> Loading {
        let mut commands = Commands::default();
        for (index, key) in self.keys.iter().enumerate() {
            for (at, spot) in key.spots.iter().enumerate() {
                if let (Some(nonce), Some(place)) = (spot.spill(), &spot.place) {
                    commands.push(&[b"GET", &spill_name(place.id, nonce, &key.logical)]);
                    self.spills.push((index, at));
                }
            }
        }
        if commands.count() == 0 {
            return Loading::Ready;
        }
        // A nonce is never reused, so what it points to can't change: these need not be read together.
        let batch = Batch::send(&commands, wire);
        let replies = batch.left();
        self.batch = Some(batch);
        Loading::More(replies)
    }

    fn take_spills(&mut self, replies: &[Vec<u8>], wire: &mut Vec<u8>) -> Loading {
        for (index, raw) in self.spills.clone().iter().zip(replies) {
            let (key, spot) = index;
            match Reply::parse(raw) {
                Ok(Reply::Bulk(bytes)) => {
                    if let Found::Field { spilled, .. } = &mut self.keys[*key].spots[*spot].found {
                        *spilled = Some(bytes.to_vec());
                    }
                }
                // Replaced since the pointer was read: everything once more. A pointer that is still there then
                // points to nothing.
                Ok(Reply::Nil) => {
                    if self.keys[*key].spots[*spot].spill().is_some_and(|nonce| self.dangling.insert(nonce)) {
                        return Loading::More(self.send(wire));
                    }
                }
                _ => return Loading::Failed(raw.clone()),
            }
        }
        Loading::Ready
    }

    /// Puts what was read into a space.
    ///
    /// # Errors
    /// The error reply for a stored value that can't be decoded.
    pub(crate) fn fill(&self, space: &mut Space) -> Result<(), String> {
        for key in &self.keys {
            space.load(&key.logical, key.held()?);
        }
        Ok(())
    }
}

/// Stands in for the reply to TYPE where it wasn't asked.
const UNASKED_TYPE: &[u8] = b"+\r\n";

fn group_by_bucket(keys: &[Key]) -> Vec<Vec<SpotIndex>> {
    let mut groups: Vec<Vec<SpotIndex>> = Vec::new();
    let mut known = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        for (spot, physical) in key.physicals().enumerate() {
            let group = *known.entry(physical).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push((index, spot));
        }
    }
    groups
}

fn read_native(replies: [&[u8]; 3], expiry_is_exact: bool, now_ms: i64) -> Result<Found, Vec<u8>> {
    let [kind, value, expiry] = replies;
    let Ok(Reply::Simple(name)) = Reply::parse(kind) else { return Err(kind.to_vec()) };
    if name == b"none" {
        return Ok(Found::Nothing);
    }
    let value = match Reply::parse(value) {
        Ok(Reply::Bulk(bytes)) => Some(bytes.to_vec()),
        Ok(Reply::Nil) if name.is_empty() => return Ok(Found::Nothing),
        Ok(Reply::Error(error)) if !error.starts_with(b"WRONGTYPE") => return Err(value.to_vec()),
        _ => None,
    };
    let expires_at_ms = match Reply::parse(expiry) {
        // Taken for none, it would be lost with the next write.
        Ok(Reply::Error(_)) => return Err(expiry.to_vec()),
        Ok(Reply::Integer(at)) if at >= 0 => Some(if expiry_is_exact { at } else { now_ms + at }),
        _ => None,
    };
    Ok(Found::Native { kind: name.to_vec(), value, expires_at_ms, expiry_is_exact })
}
