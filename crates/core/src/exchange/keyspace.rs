//! Commands on the whole keyspace whose answer is one number or one key: a bucket counts as its fields.
//!
//! None of these commands is atomic over several round trips, as SCAN never is. KEYS and SCAN are in `listing`.

use crate::cluster::Position;
use crate::exchange::batch::{Batch, Commands, split_array};
use crate::exchange::listing::List;
use crate::exchange::slot_listing::SlotList;
use crate::exchange::{Effect, Env, Io, Refusal, ReplyKind, Step, done, fail};
use crate::layout::{NamespaceIndex, Physical};
use crate::resp::{Answer, Protocol, Reply, write_command};
use crate::slot::Slot;
use crate::walk::KeyWalk;

/// DBSIZE: the names that SCAN shows, with each bucket counted by its fields. The server's own count has what has expired and
/// isn't removed yet, as thousands of parts have a moment after their set has gone, and nothing tells how much of it is keyfold's.
#[derive(Debug)]
pub(crate) struct Size {
    keys: i64,
    names: KeyWalk,
    phase: SizePhase,
}

/// Before a cluster: so many slots further RANDOMKEY goes from a node that has no key for it; at most eight times.
const SLOTS_BETWEEN: u16 = 2053;
/// Names that one SCAN looks at.
const NAMES_AT_ONCE: u64 = 2000;

#[derive(Debug)]
enum SizePhase {
    Names,
    Buckets(Batch),
}

impl Size {
    /// Sends SCAN; it has one reply.
    pub(crate) fn start(wire: &mut Vec<u8>) -> Self {
        let names = KeyWalk::new(NAMES_AT_ONCE);
        names.send(wire);
        Self { keys: 0, names, phase: SizePhase::Names }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match (&mut self.phase, Reply::parse(reply)) {
            (SizePhase::Names, Ok(page)) => match self.names.take(page) {
                Ok(names) => self.take_names(names, env, io),
                Err(_) => Refusal::of(reply).end(io),
            },
            (SizePhase::Buckets(batch), _) => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(taken) => match taken.and_then(|replies| sum(&replies)) {
                    Err(refusal) => refusal.end(io),
                    Ok(fields) => {
                        self.keys += fields;
                        self.scan(io)
                    }
                },
            },
            (SizePhase::Names, _) => Refusal::of(reply).end(io),
        }
    }

    fn scan(&mut self, io: &mut Io<'_>) -> Step {
        if self.names.send(io.wire).is_none() {
            Answer::new(io.answer, Protocol::Resp2).integer(self.keys);
            return Step::Done(Effect::None);
        }
        self.phase = SizePhase::Names;
        Step::More(1)
    }

    fn take_names<'r>(&mut self, names: impl Iterator<Item = &'r [u8]>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut commands = Commands::default();
        for name in names {
            match env.layout.read_physical(name) {
                Physical::Plain | Physical::Zipped { .. } => self.keys += 1,
                Physical::Bucket(_) => commands.push(&[b"HLEN", name]),
                Physical::Administration | Physical::Spill { .. } | Physical::Part { .. } | Physical::Unknown => {}
            }
        }
        if commands.count() == 0 {
            return self.scan(io);
        }
        let (batch, replies) = Batch::send(&commands, io.wire);
        self.phase = SizePhase::Buckets(batch);
        Step::More(replies)
    }
}

/// The sum of integers.
fn sum(replies: &[Vec<u8>]) -> Result<i64, Refusal> {
    replies.iter().try_fold(0, |sum, raw| match Reply::parse(raw) {
        Ok(Reply::Integer(number)) => Ok(sum + number),
        _ => Err(Refusal::of(raw)),
    })
}

/// RANDOMKEY: a random physical key, and a random field where it is a bucket. After some misses (keyfold's
/// own keys, expired fields) the first key that a walk finds.
#[derive(Debug)]
pub(crate) struct Random {
    protocol: Protocol,
    misses: u32,
    bucket: Option<(NamespaceIndex, Vec<u8>)>,
    walk: Option<Box<List>>,
    /// Before a cluster: the slot whose node was asked last.
    slot: Option<Slot>,
    slot_walk: Option<Box<SlotList>>,
}

impl Random {
    /// Sends RANDOMKEY; it has one reply.
    pub(crate) fn start(protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        write_command(wire, &[b"RANDOMKEY"]);
        Self { protocol, misses: 0, bucket: None, walk: None, slot: None, slot_walk: None }
    }

    /// The same before a cluster: asks the node that has this slot.
    pub(crate) fn start_at(slot: Slot, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        Self { slot: Some(slot), ..Self::start(protocol, wire) }
    }

    /// Before a cluster, the slot that the commands sent last are of.
    pub(crate) fn slot(&self) -> Option<Slot> {
        let in_bucket = self.bucket.as_ref().map(|(_, name)| Slot::of(name));
        self.slot_walk.as_ref().map(|walk| walk.slot()).or(self.slot.map(|slot| in_bucket.unwrap_or(slot)))
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if self.walk.is_some() || self.slot_walk.is_some() {
            return self.walk_on(reply, env, io);
        }
        if let Some((namespace, name)) = self.bucket.take() {
            return match random_field(reply, env, namespace, &name) {
                Some(key) => self.finish(&key, io),
                None => self.miss(env, io),
            };
        }
        match Reply::parse(reply) {
            Ok(Reply::Bulk(name)) => match env.layout.read_physical(name) {
                Physical::Plain => self.finish(name, io),
                Physical::Zipped { key, .. } => self.finish(&key, io),
                Physical::Bucket(namespace) => {
                    write_command(io.wire, &[b"HRANDFIELD", name, b"1", b"WITHVALUES"]);
                    self.bucket = Some((namespace, name.to_vec()));
                    Step::More(1)
                }
                _ => self.miss(env, io),
            },
            _ if !ReplyKind::Bulk.fits(reply) => Step::Unexpected,
            // Another node may have keys.
            Ok(Reply::Nil) if self.slot.is_some() => self.miss(env, io),
            _ => done(io, reply),
        }
    }

    fn miss(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        self.misses += 1;
        if self.misses < 8 {
            self.slot = self.slot.map(|slot| slot.after(SLOTS_BETWEEN));
            write_command(io.wire, &[b"RANDOMKEY"]);
            return Step::More(1);
        }
        self.walk_from(b"0", env, io)
    }

    fn walk_from(&mut self, cursor: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let args: [&[u8]; 4] = [b"SCAN", cursor, b"COUNT", b"100"];
        let sent = match Position::parse(cursor).filter(|_| self.slot.is_some()) {
            None => List::scan(env, &args, self.protocol, io.wire).map(|(list, replies)| {
                self.walk = Some(Box::new(list));
                replies
            }),
            Some(from) => SlotList::scan(env, from, &args, self.protocol, io.wire).map(|list| {
                self.slot_walk = Some(Box::new(list));
                1
            }),
        };
        match sent {
            Ok(replies) => Step::More(replies),
            Err(message) => fail(io, self.protocol, message),
        }
    }

    fn walk_on(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut listed = Vec::new();
        let walk_io = &mut Io { wire: io.wire, answer: &mut listed };
        let step = match (&mut self.walk, &mut self.slot_walk) {
            (Some(walk), _) => walk.handle_reply(reply, env, walk_io),
            (None, Some(walk)) => walk.handle_reply(reply, env, walk_io),
            (None, None) => return Step::Wait,
        };
        if !matches!(step, Step::Done(_)) {
            return step;
        }
        let Ok(Reply::Array(mut parts)) = Reply::parse(&listed) else {
            io.answer.append(&mut listed);
            return step;
        };
        let (cursor, keys) = (parts.next().and_then(Reply::bytes), parts.next());
        if let Some(Reply::Array(mut keys)) = keys
            && let Some(key) = keys.next().and_then(Reply::bytes)
        {
            return self.finish(key, io);
        }
        match cursor {
            Some(cursor) if cursor != b"0" => self.walk_from(cursor, env, io),
            _ => {
                Answer::new(io.answer, self.protocol).nil();
                Step::Done(Effect::None)
            }
        }
    }

    fn finish(&mut self, key: &[u8], io: &mut Io<'_>) -> Step {
        Answer::new(io.answer, self.protocol).bulk(key);
        Step::Done(Effect::None)
    }
}

/// The key of the field that HRANDFIELD chose, none where it has expired.
fn random_field(reply: &[u8], env: &Env<'_>, namespace: NamespaceIndex, bucket: &[u8]) -> Option<Vec<u8>> {
    // RESP2: field, value. RESP3: an array of one pair.
    let parts = split_array(reply)?;
    let pair = if parts.len() == 1 { split_array(&parts[0])? } else { parts };
    let (field, stored) = (Reply::parse(pair.first()?).ok()?.bytes()?, Reply::parse(pair.get(1)?).ok()?.bytes()?);
    if env.layout.has_expired_in(namespace, bucket, field, stored, env.now_ms) {
        return None;
    }
    env.layout.key_of(namespace, bucket, field)
}
