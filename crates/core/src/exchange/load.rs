//! Reads keys, wherever they lie, into a space: one round trip, and a second where values are spilled.
//!
//! A load may be told to spare large spilled values: what is short is read along with its length, and what is long
//! stays in the server until somebody needs its bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::admin::scratch_key;
use crate::collection::{CollectionKind, MOST_MEMBERS};
use crate::command::{self, Flags, Id};
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::key::{Found, Key, Spilled, Spot};
use crate::exchange::native_collection::{FEW_MEMBERS, Reading};
use crate::exchange::parts;
use crate::exchange::reply_kind::Refusal;
use crate::exchange::retire::may_have_been_evicted;
use crate::exchange::{Env, Step};
use crate::layout::{Located, spill_name};
use crate::resp::Reply;
use crate::string::Space;

/// A spilled value up to this length is read together with its length; a longer one is left where it is. It is
/// far above what most spilled values have, and a server sends it in some ten microseconds.
const READ_ALONG_BYTES: usize = 16 << 10;

/// So often keys are read once more, as one of them that lies in parts was changed meanwhile.
const MOST_MOMENTS: u32 = 100;

/// Once codecs have made so much of the values of one load, the others stay as they are: a few bytes stand for as many million.
const MOST_DECODED_BYTES: usize = 512 << 20;

/// How a load goes on after a reply.
#[derive(Debug)]
pub(crate) enum Loading {
    /// More replies are outstanding.
    Wait,
    /// More commands were written, with so many replies.
    More(u32),
    /// All keys are read.
    Ready,
    /// The server answered with an error, or with what can't be trusted.
    Failed(Refusal),
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
    /// The reads need no MULTI to be of one moment: a watch (which its EXEC would end) or a script checks that later.
    apart: bool,
    /// Spilled values are watched along with the keys.
    watched: bool,
    /// Large spilled values are left unread.
    sparing: bool,
    /// And so are collections in parts.
    sparing_parts: bool,
    /// And these at any rate, where they have more members.
    most_members: Option<u64>,
    /// How often all was read again, to be of one moment.
    moments: u32,
    /// What was left unread is being read after all.
    reads_rest: bool,
    /// Keys of their own are read without asking for their type.
    taken_for_strings: bool,
    /// The spilled values of keys in one place aren't read, and their values not decoded.
    leaves_spills: bool,
    /// Of keys of their own the members are read, where they are sets or hashes.
    with_members: bool,
    reading: Reading,
}

impl Load {
    /// A load of these keys, each named once however often it is in `logical`.
    pub(crate) fn new<'a>(env: &Env<'_>, logical: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut seen = BTreeSet::new();
        let keys = logical.filter(|key| seen.insert(*key)).map(|key| Key::locate(env.layout, key));
        Self::of(env, keys.collect())
    }

    /// The same of keys that were located.
    pub(crate) fn located<'a>(env: &Env<'_>, keys: impl Iterator<Item = (&'a [u8], Located)>) -> Self {
        let mut seen = BTreeSet::new();
        let keys = keys.filter(|(key, _)| seen.insert(*key)).map(|(key, located)| Key::at(key, located));
        Self::of(env, keys.collect())
    }

    fn of(env: &Env<'_>, keys: Vec<Key>) -> Self {
        let groups = group_by_bucket(&keys);
        Self {
            keys,
            batch: None,
            groups,
            spills: Vec::new(),
            dangling: BTreeSet::new(),
            apart: false,
            watched: false,
            sparing: false,
            sparing_parts: false,
            most_members: None,
            moments: 0,
            reads_rest: false,
            taken_for_strings: false,
            leaves_spills: false,
            with_members: false,
            reading: Reading::of(env),
        }
    }

    /// The same, on a connection that watches the keys.
    pub(crate) fn watched(mut self) -> Self {
        (self.apart, self.watched) = (true, true);
        self
    }

    /// The same load without MULTI, for a caller whose script compares everything once more before it writes.
    pub(crate) fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// A load of what WATCH has to know: of keys in one place what lies in buckets, and not the spilled values, whose nonces say
    /// enough; of one that is being moved to a bucket or from there all that is not long.
    pub(crate) fn for_watch<'a>(env: &Env<'_>, logical: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut load = Self::new(env, logical).watched();
        let Self { keys, groups, .. } = &mut load;
        for group in &mut *groups {
            group.retain(|(key, _)| keys[*key].may_be_in_bucket());
        }
        groups.retain(|group| !group.is_empty());
        load.leaves_spills = true;
        load.reading.most = FEW_MEMBERS;
        load
    }

    /// The same, where of keys of their own the members are read, if they are sets or hashes.
    pub(crate) fn with_members(mut self) -> Self {
        self.with_members = true;
        self
    }

    /// Whether a key of its own is read with its members: what it is moved to or from is a collection.
    fn reads_members(&self, key: &Key) -> bool {
        self.with_members || key.collection().is_some()
    }

    /// The same, where large spilled values are left unread.
    pub(crate) fn sparing(mut self) -> Self {
        self.sparing = true;
        self
    }

    /// The same, where collections in parts are left unread too.
    pub(crate) fn sparing_parts(mut self) -> Self {
        self.sparing_parts = true;
        self
    }

    /// The same, where sets and hashes of more members than this are left unread wherever they lie, and those that are being moved in steps.
    pub(crate) fn sparing_members(mut self, most: u64) -> Self {
        self.most_members = Some(most);
        self.reading.most = most;
        self
    }

    /// One of folded keys that says to who caches what is read when these expire, and needs no more of them.
    pub(crate) fn of_expiries<'a>(env: &Env<'_>, keys: impl Iterator<Item = (&'a [u8], Located)>) -> Self {
        let folded = keys.filter(|(_, located)| located.namespace().is_some());
        Self::located(env, folded).apart().sparing().leaving_parts()
    }

    /// The same, where collections in parts are left unread, for a caller that has no use for their members.
    pub(crate) fn leaving_parts(mut self) -> Self {
        self.most_members = Some(0);
        self
    }

    /// The same for a command that makes no other type of its key: of one that is being moved the members are left unread, if they lie under
    /// its own name and are many.
    pub(crate) fn sparing_own(mut self, args: &[&[u8]]) -> Self {
        let may_be_left = || {
            command::table().resolve(args).is_some_and(|command| {
                command.flags.contains(Flags::READONLY) || command.members.is_some() || keeps_type(command.id)
            })
        };
        if matches!(&self.keys[..], [key] if key.is_moving()) && may_be_left() {
            self.reading.most = FEW_MEMBERS;
        }
        self
    }

    /// Of which type the only key is, where it is being moved and lies under its own name, and more than so many members weren't read.
    pub(crate) fn unread_own(&self) -> Option<(&Key, CollectionKind, u64)> {
        let [key] = &self.keys[..] else { return None };
        Some((key, key.unread_own()?, self.reading.most))
    }

    /// Reads all anew, and those members too that were left unread; with the number of replies to come. None where none were that
    /// may be read.
    pub(crate) fn send_with_own(&mut self, wire: &mut Vec<u8>) -> Option<u32> {
        let is_of_few = mem::replace(&mut self.reading.most, MOST_MEMBERS) < MOST_MEMBERS;
        is_of_few.then(|| self.send(wire))
    }

    /// Whether a spilled value of this key is left unread where it is large. A collection is worked on whole.
    fn spares(&self, key: &Key) -> bool {
        self.sparing && !self.reads_rest && !self.reads_members(key)
    }

    /// Whether a spilled value was left unread.
    pub(crate) fn left_any_unread(&self) -> bool {
        self.keys.iter().flat_map(|key| key.spots()).any(Spot::is_large)
    }

    /// Reads what was left unread; with the number of replies to come.
    pub(crate) fn send_rest(&mut self, wire: &mut Vec<u8>) -> u32 {
        self.reads_rest = true;
        self.spills.clear();
        match self.read_spills(wire) {
            Loading::More(replies) => replies,
            // It was all read: from the beginning is right too.
            _ => self.send(wire),
        }
    }

    /// A load of the places that keys which are moving had before. What is in their new places isn't read, and
    /// taken for nothing: whoever writes by it checks that. The type of a key of its own isn't asked; one that is no
    /// string is of a type without a name.
    pub(crate) fn of_old_places<'a>(env: &Env<'_>, logical: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut load = Self::new(env, logical).apart();
        for group in &mut load.groups {
            group.retain(|(_, spot)| *spot > 0);
        }
        load.groups.retain(|group| !group.is_empty());
        load.taken_for_strings = true;
        load
    }

    /// Whether its keys may have been read at several moments, so that whoever only reads has to compare them too.
    pub(crate) fn is_of_moments(&self) -> bool {
        self.apart && self.keys.len() > 1
    }

    /// A key that holds nothing, in the slot of the first key.
    pub(crate) fn scratch_key(&self) -> Vec<u8> {
        scratch_key(self.keys.first().map_or(&[][..], |key| &key.logical))
    }

    /// The keys, in the order they were first named.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Takes a reply to one [of expiries](Self::of_expiries); none once all are known, as far as they can be: of what can't be read who
    /// caches it is told at once.
    pub(crate) fn take_expiries(&mut self, reply: &[u8], env: &Env<'_>, wire: &mut Vec<u8>) -> Option<Step> {
        match self.handle_reply(reply, env, wire) {
            Loading::Wait => return Some(Step::Wait),
            Loading::More(replies) => return Some(Step::More(replies)),
            Loading::Ready => {}
            Loading::Failed(_) => {
                self.keys.iter().for_each(|key| env.note_read_until(&key.logical, Some(env.now_ms)));
            }
        }
        None
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
                None if self.reads_members(&self.keys[key]) => {
                    self.reading.send(first.physical(&self.keys[key].logical), &mut commands);
                }
                None => {
                    let physical = first.physical(&self.keys[key].logical);
                    if !self.taken_for_strings {
                        commands.push(&[b"TYPE", physical]);
                    }
                    match self.leaves_spills {
                        true => commands.push(&[b"GETRANGE", physical, b"0", READ_ALONG_BYTES.to_string().as_bytes()]),
                        false => commands.push(&[b"GET", physical]),
                    }
                    commands.push(&[if self.reading.has_pexpiretime { b"PEXPIRETIME" } else { b"PTTL" }, physical]);
                }
            }
        }
        self.spills.clear();
        self.reads_rest = false;
        let (batch, replies) = match self.apart {
            true => Batch::send(&commands, wire),
            false => Batch::send_atomic(&commands, wire),
        };
        self.batch = Some(batch);
        replies
    }

    /// Takes the next reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, wire: &mut Vec<u8>) -> Loading {
        let Some(batch) = &mut self.batch else { return Loading::Ready };
        if !batch.is_last(reply) {
            return Loading::Wait;
        }
        if let Some(replies) = batch.again(wire) {
            return Loading::More(replies);
        }
        match batch.take() {
            Ok(replies) => self.take_replies(&replies, env, wire),
            // A server out of memory takes no script within MULTI, though it only reads.
            Err(Refusal::Error(error)) if error.starts_with(b"-OOM ") && !self.apart => {
                self.apart = true;
                Loading::More(self.send(wire))
            }
            Err(error) => Loading::Failed(error),
        }
    }

    /// Takes the replies to all that was sent last.
    pub(crate) fn take_replies(&mut self, replies: &[Vec<u8>], env: &Env<'_>, wire: &mut Vec<u8>) -> Loading {
        let loading = if self.spills.is_empty() {
            match self.take_found(replies, env.now_ms) {
                Ok(()) => self.read_spills(wire),
                Err(error) => Loading::Failed(error),
            }
        } else {
            self.take_spills(replies, env, wire)
        };
        if matches!(loading, Loading::Ready) {
            let leaves_spills = self.leaves_spills;
            // When fields of a hash expire only its value says.
            let is_needed =
                |key: &&mut Key| !leaves_spills || key.is_moving() || key.collection() == Some(CollectionKind::Hash);
            let mut decoded = 0_usize;
            for Key { logical, spots } in self.keys.iter_mut().filter(is_needed) {
                if decoded > MOST_DECODED_BYTES {
                    spots.iter_mut().for_each(Spot::leave_undecoded);
                } else {
                    decoded += spots.iter_mut().map(|spot| spot.decode(logical, env)).sum::<usize>();
                }
                spots.iter().for_each(|spot| env.note_read_until(logical, spot.told_until(env.now_ms)));
            }
        }
        loading
    }

    fn take_found(&mut self, replies: &[Vec<u8>], now_ms: i64) -> Result<(), Refusal> {
        let mut replies = replies.iter();
        let mut next = || replies.next().map_or(&[][..], Vec::as_slice);
        for group in &self.groups {
            let (key, spot) = group[0];
            let reads_members = self.reads_members(&self.keys[key]);
            let first = &mut self.keys[key].spots[spot];
            if first.bucket().is_none() {
                first.found = if reads_members {
                    self.reading.read(next(), now_ms)?
                } else {
                    let kind = if self.taken_for_strings { UNASKED_TYPE } else { next() };
                    read_native([kind, next(), next()], self.reading.has_pexpiretime, now_ms)?
                };
                if self.leaves_spills {
                    first.found.leave_longer_than(READ_ALONG_BYTES);
                }
                continue;
            }
            let raw = next();
            let fields: Vec<Reply<'_>> = match Reply::parse(raw) {
                Ok(Reply::Error(_)) | Err(_) => return Err(Refusal::of(raw)),
                Ok(Reply::Array(elements)) => elements.collect(),
                Ok(field) => vec![field],
            };
            if fields.len() != group.len() {
                return Err(Refusal::Unexpected);
            }
            for ((key, spot), field) in group.iter().zip(fields) {
                self.keys[*key].spots[*spot].found = match field {
                    Reply::Bulk(bytes) => Found::Field { stored: bytes.to_vec(), spilled: Spilled::Nothing },
                    Reply::Nil => Found::Nothing,
                    _ => return Err(Refusal::Unexpected),
                };
            }
        }
        Ok(())
    }

    /// Reads the spilled values that were pointed to, where there are any.
    fn read_spills(&mut self, wire: &mut Vec<u8>) -> Loading {
        let (mut commands, mut left, mut large) = (Commands::default(), Vec::new(), Vec::new());
        // Whoever needs them all says so.
        let spares_parts = self.sparing_parts && !self.reads_rest;
        for (index, key) in self.keys.iter().enumerate() {
            let is_left = self.leaves_spills && !key.is_moving();
            // No field of a hash in parts expires.
            if is_left && key.collection() != Some(CollectionKind::Hash) {
                continue;
            }
            for (at, spot) in key.spots.iter().enumerate() {
                if let (Some(_), Some(place), false) = (spot.parts(), &spot.place, is_left) {
                    if spares_parts {
                        left.push((index, at));
                    } else if self.most_members.is_some_and(|most| spot.is_in_parts_of_more(most)) {
                        large.push((index, at));
                    } else {
                        parts::send_all(place, &key.logical, spot.stored().unwrap_or_default(), &mut commands);
                        self.spills.push((index, at));
                    }
                }
                if let (Some(nonce), Some(place)) = (spot.spill(), &spot.place) {
                    let name = spill_name(place.origin, nonce, &key.logical);
                    if self.spares(key) {
                        if self.watched {
                            // A client's commands may come to be carried out on it: it must not be gone by then.
                            commands.push(&[b"WATCH", &name]);
                        }
                        commands.push(&[b"STRLEN", &name]);
                        let last = (READ_ALONG_BYTES - 1).to_string();
                        commands.push(&[b"GETRANGE", &name, b"0", last.as_bytes()]);
                    } else {
                        commands.push(&[b"GET", &name]);
                    }
                    self.spills.push((index, at));
                }
            }
        }
        for (key, spot) in large {
            self.keys[key].spots[spot].leave_unread();
        }
        for (key, spot) in left {
            let Key { logical, spots, .. } = &mut self.keys[key];
            let found = &mut spots[spot];
            match (commands.count() > 0, &found.place) {
                // As others are read now, it is as well: a third round trip would find what was asked for behind this.
                (true, Some(place)) => {
                    parts::send_all(place, logical, found.stored().unwrap_or_default(), &mut commands);
                    self.spills.push((key, spot));
                }
                _ => found.leave_unread(),
            }
        }
        if commands.count() == 0 {
            return Loading::Ready;
        }
        // A nonce is never reused, so what it points to can't change: these need not be read together.
        let (batch, replies) = Batch::send(&commands, wire);
        self.batch = Some(batch);
        Loading::More(replies)
    }

    fn take_spills(&mut self, replies: &[Vec<u8>], env: &Env<'_>, wire: &mut Vec<u8>) -> Loading {
        let mut rest = replies;
        for (key, spot) in &self.spills.clone() {
            let is_in_parts = self.keys[*key].spots[*spot].parts().is_some();
            let spares = self.spares(&self.keys[*key]) && !is_in_parts;
            let replies;
            let count = if spares { 2 + usize::from(self.watched) } else { 1 };
            (replies, rest) = rest.split_at_checked(count).unwrap_or_default();
            if replies.is_empty() {
                return Loading::Failed(Refusal::Unexpected);
            }
            if is_in_parts {
                let before = self.keys[*key].spots[*spot].stored().map(<[u8]>::to_vec);
                match self.keys[*key].spots[*spot].take_parts(&replies[0]) {
                    // The other keys were read before it was changed.
                    Ok(true)
                        if self.keys.len() > 1
                            && self.moments < MOST_MOMENTS
                            && before.as_deref() != self.keys[*key].spots[*spot].stored() =>
                    {
                        self.moments += 1;
                        return Loading::More(self.send(wire));
                    }
                    Ok(true) => continue,
                    Ok(false) if self.dangling.insert(self.keys[*key].spots[*spot].parts().unwrap_or_default()) => {
                        return Loading::More(self.send(wire));
                    }
                    // It has expired by the server's clock.
                    Ok(false) => {
                        self.keys[*key].spots[*spot].leave_for_gone();
                        continue;
                    }
                    Err(error) => return Loading::Failed(error),
                }
            }
            let found = match if spares { read_spared(replies) } else { read_spilled(&replies[0]) } {
                Ok(found) => found,
                Err(error) => return Loading::Failed(error),
            };
            let (is_moving, place) = (self.keys[*key].is_moving(), &self.keys[*key].spots[*spot].place);
            let was_evicted =
                !is_moving && place.as_ref().is_some_and(|place| may_have_been_evicted(place.namespace, env));
            let spot = &mut self.keys[*key].spots[*spot];
            // Replaced since the pointer was read: everything once more. A pointer that is still there then points
            // to nothing. What was evicted is gone, and what the client sent behind may have written it anew by now.
            if found == Spilled::Nothing
                && !was_evicted
                && spot.spill().is_some_and(|nonce| self.dangling.insert(nonce))
            {
                return Loading::More(self.send(wire));
            }
            if let Found::Field { spilled, .. } = &mut spot.found {
                *spilled = found;
            }
        }
        Loading::Ready
    }

    /// Puts what was read into a space. A value that can't be decoded is there, without its bytes.
    pub(crate) fn fill(&self, space: &mut Space) {
        for key in &self.keys {
            space.load(&key.logical, key.held_or_unread());
        }
    }
}

/// Whether such a command on one key leaves its type as it is, or nothing of it.
fn keeps_type(command: Id) -> bool {
    matches!(command, Id::Expire | Id::Pexpire | Id::Expireat | Id::Pexpireat | Id::Persist | Id::Del | Id::Unlink)
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

/// The reply to GET of a spilled value.
fn read_spilled(raw: &[u8]) -> Result<Spilled, Refusal> {
    match Reply::parse(raw) {
        Ok(Reply::Bulk(bytes)) => Ok(Spilled::Read(bytes.to_vec())),
        Ok(Reply::Nil) => Ok(Spilled::Nothing),
        _ => Err(Refusal::of(raw)),
    }
}

/// The replies to STRLEN and GETRANGE of a spilled value, the last of a few. None is empty, so that one without a
/// length is gone; so is one of which fewer bytes came than it has.
fn read_spared(replies: &[Vec<u8>]) -> Result<Spilled, Refusal> {
    let [.., len, start] = replies else { return Err(Refusal::Unexpected) };
    let Ok(Reply::Integer(len)) = Reply::parse(len) else { return Err(Refusal::of(len)) };
    let Ok(Reply::Bulk(bytes)) = Reply::parse(start) else { return Err(Refusal::of(start)) };
    let len = usize::try_from(len).unwrap_or(0);
    Ok(match bytes.len() {
        0 => Spilled::Nothing,
        read if read == len => Spilled::Read(bytes.to_vec()),
        READ_ALONG_BYTES if len > READ_ALONG_BYTES => Spilled::Large,
        _ => Spilled::Nothing,
    })
}

fn read_native(replies: [&[u8]; 3], expiry_is_exact: bool, now_ms: i64) -> Result<Found, Refusal> {
    let [kind, value, expiry] = replies;
    let Ok(Reply::Simple(name)) = Reply::parse(kind) else { return Err(Refusal::of(kind)) };
    if name == b"none" {
        return Ok(Found::Nothing);
    }
    let value = match Reply::parse(value) {
        Ok(Reply::Bulk(bytes)) => Some(bytes.to_vec()),
        Ok(Reply::Nil) if name.is_empty() => return Ok(Found::Nothing),
        Ok(Reply::Error(error)) if !error.starts_with(b"WRONGTYPE") => return Err(Refusal::of(value)),
        _ => None,
    };
    let expires_at_ms = match Reply::parse(expiry) {
        // Taken for none, it would be lost with the next write.
        Ok(Reply::Error(_)) => return Err(Refusal::of(expiry)),
        Ok(Reply::Integer(at)) if at >= 0 => Some(if expiry_is_exact { at } else { now_ms + at }),
        _ => None,
    };
    Ok(Found::Native { kind: name.to_vec(), value, expires_at_ms, expiry_is_exact })
}
