//! Reads keys, wherever they lie, into a space: one round trip, and a second where values are spilled.

use std::collections::{BTreeMap, BTreeSet};

use crate::exchange::batch::{Batch, Commands};
use crate::exchange::script::CompareAndSet;
use crate::exchange::{Env, failure};
use crate::frame::{Body, Frame};
use crate::layout::{Layout, Located, Place, PlaceKind};
use crate::resp::Reply;
use crate::string::{Entry, Held, Space};

/// One key: where it lies, and what was found there.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// What the application calls it.
    pub(crate) logical: Vec<u8>,
    /// Its place; none for a plain key.
    pub(crate) place: Option<Place>,
    found: Found,
}

/// What lay in a key's place.
#[derive(Clone, Debug, Default)]
enum Found {
    #[default]
    Nothing,
    /// A bucket's field: the stored value, and the spilled value it points to, once read.
    Field { stored: Vec<u8>, spilled: Option<Vec<u8>> },
    /// A key of its own: what TYPE, GET and PEXPIRETIME said.
    Native { kind: Vec<u8>, value: Option<Vec<u8>>, expires_at_ms: Option<i64>, expiry_is_exact: bool },
}

impl Key {
    /// A key and its place by the layout.
    pub(crate) fn locate(layout: &Layout, logical: &[u8]) -> Self {
        let place = match layout.locate(logical) {
            Located::Placed(place) => Some(place),
            Located::Plain | Located::Reserved => None,
        };
        Self { logical: logical.to_vec(), place, found: Found::Nothing }
    }

    /// The physical key that holds it.
    pub(crate) fn physical(&self) -> &[u8] {
        self.place.as_ref().map_or(&self.logical, |place| &place.physical)
    }

    /// Its bucket's place, where it lies in one.
    pub(crate) fn bucket(&self) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.kind == PlaceKind::Bucket)
    }

    /// The nonce of its spilled value, where it has one.
    pub(crate) fn spill(&self) -> Option<u64> {
        let Found::Field { stored, .. } = &self.found else { return None };
        match Frame::decode(stored).ok()?.body {
            Body::Spill(nonce) => Some(nonce),
            _ => None,
        }
    }

    /// Whether something lies in its place, an expired value included.
    pub(crate) fn is_stored(&self) -> bool {
        !matches!(self.found, Found::Nothing)
    }

    /// Whether the same bytes lie in its place.
    pub(crate) fn holds_the_same(&self, other: &Self) -> bool {
        match (&self.found, &other.found) {
            (Found::Nothing, Found::Nothing) => true,
            (Found::Field { stored, .. }, Found::Field { stored: other, .. }) => stored == other,
            _ => false,
        }
    }

    /// When the bucket's value expires, where it does.
    pub(crate) fn field_expires_at_ms(&self) -> Option<i64> {
        let Found::Field { stored, .. } = &self.found else { return None };
        Frame::decode(stored).ok()?.expires_at_ms
    }

    /// Adds the checks that what was found is still there.
    pub(crate) fn check(&self, writes: &mut CompareAndSet) {
        match (&self.found, self.bucket()) {
            (Found::Field { stored, .. }, Some(place)) => {
                writes.check(&[b"HGET", &place.physical, &place.field], Some(stored));
            }
            (_, Some(place)) => writes.check(&[b"HGET", &place.physical, &place.field], None),
            (Found::Native { kind, value, expires_at_ms, expiry_is_exact }, None) => {
                writes.check(&[b"TYPE", self.physical()], Some(kind));
                let Some(value) = value else { return };
                writes.check(&[b"GET", self.physical()], Some(value));
                if *expiry_is_exact {
                    let at = expires_at_ms.unwrap_or(-1).to_string();
                    writes.check(&[b"PEXPIRETIME", self.physical()], Some(at.as_bytes()));
                }
            }
            (_, None) => writes.check(&[b"TYPE", self.physical()], Some(b"none")),
        }
    }

    /// What it holds, for a space.
    fn held(&self) -> Result<Held, String> {
        match &self.found {
            Found::Nothing => Ok(Held::Nothing),
            Found::Native { kind, value, expires_at_ms, .. } => Ok(match value {
                Some(value) => Held::String(Entry { value: value.clone(), expires_at_ms: *expires_at_ms }),
                None => Held::Other(kind.clone()),
            }),
            Found::Field { stored, spilled } => {
                let frame = Frame::decode(stored).map_err(|error| failure(&self.logical, &error.to_string()))?;
                let value = match frame.body {
                    Body::Raw(bytes) => bytes.to_vec(),
                    Body::Integer(number) => number.to_string().into_bytes(),
                    Body::Spill(_) => spilled.clone().unwrap_or_default(),
                    Body::Coded { slot, .. } => {
                        return Err(failure(&self.logical, &format!("its codec, slot {slot}, is not in the layout")));
                    }
                };
                Ok(Held::String(Entry { value, expires_at_ms: frame.expires_at_ms }))
            }
        }
    }
}

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

/// The reading of a set of keys.
#[derive(Debug)]
pub(crate) struct Load {
    keys: Vec<Key>,
    batch: Option<Batch>,
    /// The bucket of each HMGET, as indices into `keys`; a native key alone.
    groups: Vec<Vec<usize>>,
    /// The keys whose spilled values are being read.
    spills: Vec<usize>,
    /// Within a WATCH, EXEC would end it; there the watch keeps what is read together.
    watched: bool,
    has_pexpiretime: bool,
}

impl Load {
    /// A load of these keys, each named once however often it is in `logical`.
    pub(crate) fn new<'a>(env: &Env<'_>, logical: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut seen = BTreeSet::new();
        let keys: Vec<Key> = logical.filter(|key| seen.insert(*key)).map(|key| Key::locate(env.layout, key)).collect();
        let groups = group_by_bucket(&keys);
        let has_pexpiretime = env.server.major() >= 7;
        Self { keys, batch: None, groups, spills: Vec::new(), watched: false, has_pexpiretime }
    }

    /// The same, on a connection that watches the keys.
    pub(crate) fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// The keys, in the order they were first named.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Sends the reads; how many replies they have.
    pub(crate) fn send(&mut self, wire: &mut Vec<u8>) -> u32 {
        let mut commands = Commands::default();
        for group in &self.groups {
            let first = &self.keys[group[0]];
            match first.bucket() {
                Some(place) if group.len() == 1 => commands.push(&[b"HGET", &place.physical, &place.field]),
                Some(place) => {
                    let fields = group.iter().filter_map(|index| self.keys[*index].bucket());
                    let mut args: Vec<&[u8]> = vec![b"HMGET", &place.physical];
                    args.extend(fields.map(|place| place.field.as_slice()));
                    commands.push(&args);
                }
                None => {
                    let physical = first.physical();
                    commands.push(&[b"TYPE", physical]);
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
        if !self.spills.is_empty() {
            return self.take_spills(&replies, wire);
        }
        if let Err(error) = self.take_found(&replies, env.now_ms) {
            return Loading::Failed(error);
        }
        self.read_spills(env, wire)
    }

    fn take_found(&mut self, replies: &[Vec<u8>], now_ms: i64) -> Result<(), Vec<u8>> {
        let mut replies = replies.iter();
        let mut next = || replies.next().map_or(&b"-ERR keyfold: a reply is missing\r\n"[..], Vec::as_slice);
        for group in &self.groups {
            if self.keys[group[0]].bucket().is_none() {
                let found = read_native([next(), next(), next()], self.has_pexpiretime, now_ms)?;
                self.keys[group[0]].found = found;
                continue;
            }
            let raw = next();
            let fields: Vec<Reply<'_>> = match Reply::parse(raw) {
                Ok(Reply::Error(_)) | Err(_) => return Err(raw.to_vec()),
                Ok(Reply::Array(elements)) => elements.collect(),
                Ok(field) => vec![field],
            };
            for (index, field) in group.iter().zip(fields) {
                self.keys[*index].found = field
                    .bytes()
                    .map_or(Found::Nothing, |bytes| Found::Field { stored: bytes.to_vec(), spilled: None });
            }
        }
        Ok(())
    }

    /// Reads the spilled values that were pointed to, where there are any.
    fn read_spills(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) -> Loading {
        let mut commands = Commands::default();
        for (index, key) in self.keys.iter().enumerate() {
            if let (Some(nonce), Some(place)) = (key.spill(), &key.place) {
                commands.push(&[b"GET", &env.layout.spill_name(place.namespace, nonce, &key.logical)]);
                self.spills.push(index);
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
        for (index, raw) in self.spills.iter().zip(replies) {
            match Reply::parse(raw) {
                Ok(Reply::Bulk(bytes)) => {
                    if let Found::Field { spilled, .. } = &mut self.keys[*index].found {
                        *spilled = Some(bytes.to_vec());
                    }
                }
                // Replaced since the pointer was read: everything once more.
                Ok(Reply::Nil) => return Loading::More(self.send(wire)),
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

fn group_by_bucket(keys: &[Key]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        let group = *known.entry(key.physical()).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(index);
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
        _ => None,
    };
    let expires_at_ms = match Reply::parse(expiry) {
        Ok(Reply::Integer(at)) if at >= 0 => Some(if expiry_is_exact { at } else { now_ms + at }),
        _ => None,
    };
    Ok(Found::Native { kind: name.to_vec(), value, expires_at_ms, expiry_is_exact })
}
