//! The cheap ways: one physical command, or one atomic group, for one logical command.
//!
//! | logical | physical | where it goes on |
//! | --- | --- | --- |
//! | GET | HGET | a frame is decoded; a spilled value is read |
//! | SET, SETEX, PSETEX | HSET | where values spill, with HGET in MULTI, so that the old one is retired |
//! | SETNX, SET NX where a codec writes | HSETNX | a field that is there may have expired: worked out |
//! | GET, SET, SETEX, PSETEX of a key of its own with a codec | GET, SET | |
//! | INCR, DECR, INCRBY, DECRBY | HINCRBY | a frame is no integer for the server: by a script |
//! | SET, SETEX, PSETEX of a key that is being moved | HSET or SET, and UNLINK, in MULTI | where the old place is a bucket, or values spill: worked out |
//! | MSET | HSET a bucket, in MULTI | |
//! | DEL, UNLINK | HMGET and HDEL a bucket, in MULTI | spilled values are retired |

use smallvec::{SmallVec, smallvec};

use crate::exchange::batch::{Batch, Commands};
use crate::exchange::key::{Key, decode};
use crate::exchange::retire::{abandon, may_have_been_evicted, spill_retirement};
use crate::exchange::{Effect, Env, Io, Refusal, ReplyKind, Step, done, failure, store};
use crate::frame::{Body, Frame, is_raw};
use crate::layout::{Layout, Located, Namespace, NamespaceIndex, Place, spill_name};
use crate::record::{PhysicalWrites, physical_read};
use crate::resp::{Answer, Protocol, Reply, write_command};
use crate::string::{SetCommand, SetForm};

/// A key's bytes, on the spot where they are few.
pub(crate) type KeyBytes = SmallVec<[u8; 40]>;

/// GET of a key whose value is a frame, in a bucket or in a key of its own.
#[derive(Debug)]
pub(crate) struct Get {
    key: KeyBytes,
    namespace: NamespaceIndex,
    protocol: Protocol,
    /// The pointer was read; the reply is the spilled value.
    pointer: Option<Pointer>,
    /// The nonce of the pointer that was read last.
    nonce: Option<u64>,
}

/// Where a spilled value lies, and which codec wrote it.
#[derive(Clone, Copy, Debug)]
struct Pointer {
    nonce: u64,
    slot: Option<u8>,
}

impl Get {
    /// Sends HGET, or GET; it has one reply.
    pub(crate) fn start(key: &[u8], place: &Place, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        write_command(wire, &physical_read(Some(place), key));
        Self { key: key.into(), namespace: place.namespace, protocol, pointer: None, nonce: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match Reply::parse(reply) {
            Ok(Reply::Nil) if self.pointer.is_some() && may_have_been_evicted(self.namespace, env) => done(io, reply),
            Ok(Reply::Nil) if self.pointer.is_some() => self.begin_again(env.layout, io),
            Ok(Reply::Bulk(content)) if let Some(pointer) = self.pointer => {
                if pointer.slot.is_none() {
                    return done(io, reply);
                }
                let frame =
                    Frame { expires_at_ms: None, body: Body::Spill { nonce: pointer.nonce, slot: pointer.slot } };
                self.answer(&frame, Some(content), env, io)
            }
            Ok(Reply::Bulk(stored)) if !is_raw(stored) => self.decode(stored, env, io),
            _ if !ReplyKind::Bulk.fits(reply) => Step::Unexpected,
            _ => done(io, reply),
        }
    }

    fn decode(&mut self, stored: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut answer = Answer::new(io.answer, self.protocol);
        match Frame::decode(stored) {
            Err(error) => answer.error(&failure(&self.key, &error.to_string())),
            Ok(frame) if frame.expired(env.now_ms) => answer.nil(),
            Ok(frame) => {
                env.note_read_until(&self.key, frame.expires_at_ms);
                return self.answer_frame(&frame, env, io);
            }
        }
        Step::Done(Effect::None)
    }

    fn answer_frame(&mut self, frame: &Frame<'_>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut answer = Answer::new(io.answer, self.protocol);
        match frame.body {
            Body::Raw(bytes) => answer.bulk(bytes),
            Body::Integer(number) => answer.bulk(itoa::Buffer::new().format(number).as_bytes()),
            Body::Coded { .. } => return self.answer(frame, None, env, io),
            Body::Parts { .. } => answer.error(&failure(&self.key, "a collection in parts lies where strings do")),
            // The pointer was read twice and points to nothing: the server has evicted or lost the value.
            Body::Spill { nonce, .. } if self.nonce == Some(nonce) => answer.nil(),
            Body::Spill { nonce, slot } => {
                self.nonce = Some(nonce);
                let Located::Placed(place) = env.layout.locate(&self.key) else {
                    return self.begin_again(env.layout, io);
                };
                write_command(io.wire, &[b"GET", &spill_name(place.origin, nonce, &self.key)]);
                self.pointer = Some(Pointer { nonce, slot });
                return Step::More(1);
            }
        }
        Step::Done(Effect::None)
    }

    /// Answers what a codec wrote. The layout is the one of the beginning: the next one waits for what is under way.
    fn answer(&self, frame: &Frame<'_>, spilled: Option<&[u8]>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut answer = Answer::new(io.answer, self.protocol);
        match decode(env, self.namespace, &self.key, frame, spilled) {
            Ok(Some(value)) => answer.bulk(&value),
            Ok(None) => answer.nil(),
            Err(why) => answer.error(&failure(&self.key, &why)),
        }
        Step::Done(Effect::None)
    }

    /// The value was replaced after its pointer was read: once more.
    fn begin_again(&mut self, layout: &Layout, io: &mut Io<'_>) -> Step {
        self.pointer = None;
        // A namespace can't have begun to move meanwhile: a layout is replaced only when no exchange is under way.
        let place = layout.locate(&self.key).place();
        write_command(io.wire, &physical_read(place.as_ref(), &self.key));
        Step::More(1)
    }
}

/// Whether a value is stored just as it is.
pub(crate) fn is_stored_raw(set: &SetCommand<'_>, namespace: &Namespace) -> bool {
    set.expires_at_ms.is_none()
        && is_raw(set.value)
        && set.value.len() <= namespace.value_limit
        && namespace.codecs.written().is_none()
}

/// An unconditional write of one key in a bucket, in one HSET. Its reply says nothing; the answer is OK.
pub(crate) fn set(stored: &[u8], place: &Place, wire: &mut Vec<u8>) {
    write_command(wire, &[b"HSET", &place.physical, &place.field, stored]);
}

/// An unconditional write of a key of its own whose value is a frame. Its reply says nothing; the answer is OK.
pub(crate) fn set_own(env: &mut Env<'_>, set: &SetCommand<'_>, place: &Place, key: &[u8], wire: &mut Vec<u8>) {
    let record = store::encode(env, Some(place), key, set.value, set.expires_at_ms);
    record.main.command(|args| write_command(wire, args));
}

/// An unconditional write where the old value or the new one may be spilled.
#[derive(Debug)]
pub(crate) struct Overwrite {
    key: Key,
    batch: Batch,
    retiring: bool,
}

impl Overwrite {
    /// Sends the group; with the number of its replies.
    pub(crate) fn start(key: &[u8], place: &Place, record: &PhysicalWrites<'_>, wire: &mut Vec<u8>) -> (Self, u32) {
        let key = Key::at(key, Located::Placed(place.clone()));
        let mut commands = Commands::default();
        commands.push(&[b"HGET", &place.physical, &place.field]);
        record.iter().for_each(|write| write.command(|args| commands.push(args)));
        let (batch, replies) = Batch::send_atomic(&commands, wire);
        (Self { key, batch, retiring: false }, replies)
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], io: &mut Io<'_>) -> Step {
        match self.batch.handle_reply(reply) {
            None => return Step::Wait,
            Some(Err(refusal)) => return refusal.end(io),
            Some(Ok(replies)) if !self.retiring => {
                let old = replies.first().and_then(|old| Reply::parse(old).ok()?.bytes());
                let mut commands = Commands::default();
                if let Some(frame) = old.and_then(|stored| Frame::decode(stored).ok()) {
                    retire(&mut commands, &self.key, &frame);
                }
                if commands.count() > 0 {
                    self.retiring = true;
                    let replies;
                    (self.batch, replies) = Batch::send(&commands, io.wire);
                    return Step::More(replies);
                }
            }
            Some(Ok(_)) => {}
        }
        done(io, b"+OK\r\n")
    }
}

/// MSET where nothing is spilled: all buckets in one atomic group, whatever was there before.
pub(crate) fn set_many<'a>(
    env: &mut Env<'_>,
    keys: impl Iterator<Item = ((&'a [u8], Located), &'a [u8])>,
    wire: &mut Vec<u8>,
) -> Option<(Batch, u32)> {
    let mut commands = Commands::default();
    let mut buckets: Vec<(Place, Vec<Vec<u8>>)> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for ((key, located), value) in keys {
        let place = located.place();
        let Some(place) = place.as_ref().filter(|place| place.kind.is_field()) else {
            let record = store::encode(env, place.as_ref(), key, value, None);
            record.main.command(|args| commands.push(args));
            continue;
        };
        if env.stats.namespace(place.namespace).has_spilled() {
            return None;
        }
        let record = store::encode(env, Some(place), key, value, None);
        if record.is_spilled() {
            return None;
        }
        let bucket = *known.entry(place.physical.clone()).or_insert(buckets.len());
        if bucket == buckets.len() {
            buckets.push((place.clone(), Vec::new()));
        }
        buckets[bucket].1.extend([place.field.to_vec(), record.main.value().to_vec()]);
    }
    for (place, fields) in &buckets {
        let mut args: Vec<&[u8]> = vec![b"HSET", &place.physical];
        args.extend(fields.iter().map(Vec::as_slice));
        commands.push(&args);
    }
    Some(Batch::send_atomic(&commands, wire))
}

/// An unconditional SET of a key that lies in one of two places, whatever is there: the new place is written and
/// the old one cleared in one atomic group. None where the command isn't as simple, or something may be spilled.
pub(crate) fn set_moving(
    env: &mut Env<'_>,
    form: SetForm,
    key: (&[u8], Located),
    args: &[&[u8]],
    wire: &mut Vec<u8>,
) -> Option<(Batch, u32)> {
    let set = SetCommand::read_simple(form, args, env.now_ms).filter(|set| !set.if_absent())?;
    let key = Key::at(key.0, key.1);
    let [new, old] = key.spots() else { return None };
    // What an old bucket points to must be retired, and so has to be read.
    if old.bucket().is_some() || env.stats.namespace(key.place()?.namespace).has_spilled() {
        return None;
    }
    let mut commands = Commands::default();
    if let Some(place) = new.bucket() {
        let namespace = env.layout.namespace(place.namespace);
        if namespace.codecs.written().is_none() && set.value.len() > namespace.value_limit.saturating_sub(9) {
            // It may have to be spilled.
            return None;
        }
    }
    let record = store::encode(env, new.place.as_ref(), &key.logical, set.value, set.expires_at_ms);
    if record.is_spilled() {
        return None;
    }
    record.main.command(|args| commands.push(args));
    commands.push(&[b"UNLINK", old.physical(&key.logical)]);
    Some(Batch::send_atomic(&commands, wire))
}

/// DEL or UNLINK of keys of which at least one lies in a bucket.
#[derive(Debug)]
pub(crate) struct Delete {
    /// The folded keys, each once, by bucket.
    buckets: SmallVec<[SmallVec<[Key; 1]>; 1]>,
    native: usize,
    batch: Batch,
    deleted: i64,
    retiring: bool,
}

impl Delete {
    /// Sends the group; with the number of its replies. `command` is DEL or UNLINK, for the keys that are
    /// not in buckets.
    pub(crate) fn start<'a>(
        command: &[u8],
        keys: impl Iterator<Item = (&'a [u8], Located)>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut commands = Commands::default();
        let mut keys: SmallVec<[Key; 1]> = keys.map(|(logical, located)| Key::at(logical, located)).collect();
        // Those of one bucket come to lie side by side, and a key that is named twice beside itself.
        keys.sort_by(|a, b| (a.physical(), &a.logical).cmp(&(b.physical(), &b.logical)));
        keys.dedup_by(|a, b| a.logical == b.logical);
        let mut buckets: SmallVec<[SmallVec<[Key; 1]>; 1]> = SmallVec::new();
        let mut native = 0;
        for key in keys {
            if key.bucket().is_none() {
                commands.push(&[command, key.physical()]);
                native += 1;
                continue;
            }
            match buckets.last_mut() {
                Some(bucket) if bucket[0].physical() == key.physical() => bucket.push(key),
                _ => buckets.push(smallvec![key]),
            }
        }
        for keys in &buckets {
            for command in [&b"HMGET"[..], b"HDEL"] {
                let mut args: SmallVec<[&[u8]; 4]> = smallvec![command, keys[0].physical()];
                args.extend(keys.iter().filter_map(Key::bucket).map(|place| place.field.as_slice()));
                commands.push(&args);
            }
        }
        let (batch, replies) = Batch::begin_atomic(commands, wire);
        (Self { buckets, native, batch, deleted: 0, retiring: false }, replies)
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if !self.batch.is_last(reply) {
            return Step::Wait;
        }
        if let Some(replies) = self.batch.again(io.wire) {
            return Step::More(replies);
        }
        match self.batch.take_array() {
            Err(refusal) => return refusal.end(io),
            Ok(replies) if !self.retiring => {
                let commands = match self.count(&replies, env) {
                    Ok(commands) => commands,
                    Err(refusal) => return refusal.end(io),
                };
                if commands.count() > 0 {
                    self.retiring = true;
                    let replies;
                    (self.batch, replies) = Batch::send(&commands, io.wire);
                    return Step::More(replies);
                }
            }
            Ok(_) => {}
        }
        Answer::new(io.answer, Protocol::Resp2).integer(self.deleted);
        Step::Done(Effect::None)
    }

    /// Counts what was there and hadn't expired; the commands that retire what was spilled.
    fn count(&mut self, replies: &[u8], env: &Env<'_>) -> Result<Commands, Refusal> {
        let mut commands = Commands::default();
        let Ok(Reply::Array(mut replies)) = Reply::parse(replies) else { return Err(Refusal::Unexpected) };
        let mut next = || replies.next_raw().unwrap_or_default();
        for _ in 0..self.native {
            let raw = next();
            let Ok(Reply::Integer(count)) = Reply::parse(raw) else { return Err(Refusal::of(raw)) };
            self.deleted += count;
        }
        for keys in &self.buckets {
            let (raw, _) = (next(), next());
            let Ok(Reply::Array(fields)) = Reply::parse(raw) else { return Err(Refusal::of(raw)) };
            for (key, field) in keys.iter().zip(fields) {
                let Some(stored) = field.bytes() else { continue };
                // What can't be decoded was there all the same.
                let frame = Frame::decode(stored).ok();
                let ends_at_ms = frame.as_ref().zip(key.bucket()).and_then(|(frame, place)| {
                    env.layout.ends_at_ms(place.namespace, &place.physical, &place.field, frame)
                });
                self.deleted += i64::from(ends_at_ms.is_none_or(|at| at >= env.now_ms));
                if let (Some(place), Some(frame)) = (key.bucket(), frame) {
                    retire(&mut commands, key, &frame);
                    abandon(place.origin, &frame, env);
                }
            }
        }
        Ok(commands)
    }
}

/// Retires the spilled value that an old frame points to, where it does.
fn retire(commands: &mut Commands, key: &Key, old: &Frame<'_>) {
    if let (Some(place), Body::Spill { nonce, .. }) = (key.bucket(), old.body) {
        spill_retirement(place, nonce, &key.logical, |command| commands.push(command));
    }
}
