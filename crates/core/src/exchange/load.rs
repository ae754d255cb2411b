//! Reads keys, wherever they lie, into a space: one round trip, and a second where values are spilled.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use smallvec::{SmallVec, smallvec};

use crate::codec;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::script::CompareAndSet;
use crate::exchange::{Env, failure};
use crate::frame::{Body, Frame};
use crate::layout::{Layout, Located, Namespace, Place, PlaceKind, spill_name};
use crate::placement::handmade::Packing;
use crate::resp::Reply;
use crate::string::{Entry, Held, Space};

/// One key: the spots where it may lie, and what was found there.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// What the application calls it.
    pub(crate) logical: Vec<u8>,
    /// Where it may lie: one spot, or two while its namespace is moved. It is written to the first.
    spots: SmallVec<[Spot; 1]>,
}

/// One place in the server where a key may lie.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// Its place by the layout; none for a key of its own under its own name.
    pub(crate) place: Option<Place>,
    found: Found,
    /// What that is, or the error reply where it can't be decoded.
    held: Result<Held, String>,
}

/// What lay in a spot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Nothing,
    /// A bucket's field: the stored value, and the spilled value it points to, once read.
    Field { stored: Vec<u8>, spilled: Option<Vec<u8>> },
    /// A key of its own: what TYPE, GET and PEXPIRETIME said.
    Native { kind: Vec<u8>, value: Option<Vec<u8>>, expires_at_ms: Option<i64>, expiry_is_exact: bool },
}

impl Spot {
    fn at(place: Option<Place>) -> Self {
        Self { place, found: Found::Nothing, held: Ok(Held::Nothing) }
    }

    /// The physical key that holds it; `logical` where it is its own.
    pub(crate) fn physical<'k>(&'k self, logical: &'k [u8]) -> &'k [u8] {
        self.place.as_ref().map_or(logical, |place| &place.physical)
    }

    /// Its bucket's place, where it is in one, be it a handmade hash.
    pub(crate) fn bucket(&self) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.kind.is_field())
    }

    /// How its value lies in a handmade hash, where it is in one.
    fn packing(&self) -> Option<Packing> {
        match self.place.as_ref()?.kind {
            PlaceKind::Handmade(packing) => Some(packing),
            PlaceKind::Bucket | PlaceKind::Zipped | PlaceKind::Framed => None,
        }
    }

    /// The frame that lies there; none in a handmade hash, where the same bytes are a value.
    fn frame(&self) -> Option<Frame<'_>> {
        match &self.found {
            Found::Field { stored, .. } if self.packing().is_none() => Frame::decode(stored).ok(),
            _ => None,
        }
    }

    /// The nonce of the spilled value, where there is one.
    pub(crate) fn spill(&self) -> Option<u64> {
        match self.frame()?.body {
            Body::Spill { nonce, .. } => Some(nonce),
            _ => None,
        }
    }

    /// Whether something lies there, an expired value included.
    pub(crate) fn is_stored(&self) -> bool {
        self.found != Found::Nothing
    }

    /// Whether the value that lies there would be stored as it is if it were written now: in its place or spilled, by
    /// the same codec or by none.
    pub(crate) fn is_stored_as_written_now(&self, namespace: &Namespace, logical: &[u8], value: &[u8]) -> bool {
        let (stored, in_place) = match &self.found {
            Found::Field { stored, .. } => (stored, false),
            Found::Native { value: Some(stored), .. } => (stored, true),
            _ => return true,
        };
        let Ok(frame) = Frame::decode(stored) else { return false };
        let written = namespace.codecs.written().map(|slot| slot.number);
        if let Body::Coded { slot, .. } = frame.body
            && Some(slot) == written
        {
            return true;
        }
        if in_place {
            return namespace.encode_own(logical, value) == *stored;
        }
        match namespace.encode(logical, value, frame.expires_at_ms) {
            codec::Stored::InPlace(again) => again == *stored,
            codec::Stored::Spilled { slot, .. } => matches!(frame.body, Body::Spill { slot: now, .. } if now == slot),
        }
    }

    /// Adds the checks that what was found is still there.
    fn check(&self, logical: &[u8], writes: &mut CompareAndSet) {
        let physical = self.physical(logical);
        match (&self.found, self.bucket()) {
            (Found::Field { stored, .. }, Some(place)) => {
                writes.check(&[b"HGET", &place.physical, &place.field], Some(stored));
            }
            (_, Some(place)) => writes.check(&[b"HGET", &place.physical, &place.field], None),
            (Found::Native { kind, value, expires_at_ms, expiry_is_exact }, None) => {
                let Some(value) = value else { return writes.check(&[b"TYPE", physical], Some(kind)) };
                writes.check(&[b"GET", physical], Some(value));
                if *expiry_is_exact {
                    let at = expires_at_ms.unwrap_or(-1).to_string();
                    writes.check(&[b"PEXPIRETIME", physical], Some(at.as_bytes()));
                }
            }
            (_, None) => writes.check(&[b"EXISTS", physical], Some(b"0")),
        }
    }

    /// Works out what it is that was found.
    fn decode(&mut self, logical: &[u8], env: &Env<'_>) {
        self.held = self.read(logical, env).map_err(|why| failure(logical, &why));
    }

    fn read(&self, logical: &[u8], env: &Env<'_>) -> Result<Held, String> {
        let decode = |place: &Place, stored: &[u8], spilled: Option<&[u8]>| {
            let frame = Frame::decode(stored).map_err(|error| error.to_string())?;
            let value = decode(env, place, logical, &frame, spilled)?;
            Ok::<_, String>(value.map(|value| (value.into_owned(), frame.expires_at_ms)))
        };
        let string = |value, expires_at_ms| Ok(Held::String(Entry { value, expires_at_ms }));
        match (&self.found, &self.place) {
            (Found::Nothing, _) => Ok(Held::Nothing),
            (Found::Native { value: None, kind, .. }, _) => Ok(Held::Other(kind.clone())),
            (Found::Native { value: Some(stored), expires_at_ms, .. }, Some(place))
                if place.kind == PlaceKind::Framed =>
            {
                decode(place, stored, None)?.map_or(Ok(Held::Nothing), |(value, _)| string(value, *expires_at_ms))
            }
            (Found::Native { value: Some(value), expires_at_ms, .. }, _) => string(value.clone(), *expires_at_ms),
            (Found::Field { .. }, None) => Err("a field without a place".to_owned()),
            (Found::Field { stored, spilled }, Some(place)) => match place.kind {
                PlaceKind::Handmade(packing) => {
                    string(packing.unpack(stored).map_err(|error| error.to_string())?.into_owned(), None)
                }
                // Where a spilled value is gone the server has evicted it, or lost it: the key is gone with it.
                _ => decode(place, stored, spilled.as_deref())?
                    .map_or(Ok(Held::Nothing), |(value, at)| string(value, at)),
            },
        }
    }
}

/// The value of a frame in a place; none where the spilled value it points to is gone. One that can't be decoded is
/// counted.
pub(crate) fn decode<'s>(
    env: &Env<'_>,
    place: &Place,
    logical: &[u8],
    frame: &Frame<'s>,
    spilled: Option<&'s [u8]>,
) -> Result<Option<Cow<'s, [u8]>>, String> {
    env.layout.namespace(place.namespace).decode(logical, frame, spilled).map_err(|error| {
        env.stats.namespace(place.namespace).count_undecodable();
        error.to_string()
    })
}

impl Key {
    /// A key and its spots by the layout.
    pub(crate) fn locate(layout: &Layout, logical: &[u8]) -> Self {
        let spots = match layout.locate(logical) {
            Located::Placed(place) => smallvec![Spot::at(Some(place))],
            Located::Plain | Located::Reserved => smallvec![Spot::at(None)],
            Located::Moving(moving) => smallvec![Spot::at(moving.new), Spot::at(moving.old)],
        };
        Self { logical: logical.to_vec(), spots }
    }

    /// The spots where it may lie, the one where it is written first.
    pub(crate) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// Its place, where that isn't its own name.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.spots.iter().find_map(|spot| spot.place.as_ref())
    }

    /// Whether it may lie in one of two places, and must be looked for in both.
    pub(crate) fn is_moving(&self) -> bool {
        self.spots.len() > 1
    }

    /// The physical key that it is written to.
    pub(crate) fn physical(&self) -> &[u8] {
        self.spots[0].physical(&self.logical)
    }

    /// Every physical key that may hold it.
    pub(crate) fn physicals(&self) -> impl Iterator<Item = &[u8]> {
        self.spots.iter().map(|spot| spot.physical(&self.logical))
    }

    /// Its bucket's place, where it is written to one.
    pub(crate) fn bucket(&self) -> Option<&Place> {
        self.spots[0].bucket()
    }

    /// Whether each place where it may lie is in a bucket.
    pub(crate) fn is_in_buckets(&self) -> bool {
        self.spots.iter().all(|spot| spot.bucket().is_some())
    }

    /// Whether it is stored anywhere, an expired value included.
    pub(crate) fn is_stored(&self) -> bool {
        self.spots.iter().any(Spot::is_stored)
    }

    /// Whether it is the same value, wherever it lies.
    pub(crate) fn holds_the_same(&self, other: &Self) -> bool {
        let fields = |key: &Self| key.spots.iter().all(|spot| !matches!(spot.found, Found::Native { .. }));
        if fields(self) && fields(other) && !self.is_moving() && !other.is_moving() {
            return match (&self.spots[0].found, &other.spots[0].found) {
                (Found::Field { stored, .. }, Found::Field { stored: other, .. }) => stored == other,
                (one, other) => one == other,
            };
        }
        match (self.held(), other.held()) {
            (Ok(Held::Other(_)), _) | (Err(_), _) => false,
            (Ok(one), Ok(other)) => one == other,
            (_, Err(_)) => false,
        }
    }

    /// Whether all spots that hold anything hold the same string.
    pub(crate) fn holds_the_same_everywhere(&self) -> bool {
        let mut held = self.spots.iter().filter(|spot| spot.is_stored()).map(|spot| &spot.held);
        let first = held.next();
        matches!(first, Some(Ok(Held::String(_)))) && held.all(|other| Some(other) == first)
    }

    /// When the bucket's value expires, where it does.
    pub(crate) fn field_expires_at_ms(&self) -> Option<i64> {
        self.spots.iter().find_map(|spot| spot.frame()?.expires_at_ms)
    }

    /// Adds the checks that what was found is still there.
    pub(crate) fn check(&self, writes: &mut CompareAndSet) {
        for spot in &self.spots {
            spot.check(&self.logical, writes);
        }
    }

    /// What it holds, for a space: what lies in the first of its spots that holds anything.
    pub(crate) fn held(&self) -> Result<Held, String> {
        let spot = self.spots.iter().find(|spot| spot.is_stored());
        spot.map_or(Ok(Held::Nothing), |spot| spot.held.clone())
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
