//! Commands on the whole keyspace: logical keys are shown, buckets never.
//!
//! Buckets are found by the reserved prefix, or by what the names of handmade hashes begin with, and opened with HGETALL, because whether a field still counts is
//! written in its value. None of these commands is atomic over several round trips, as SCAN never is.

use std::mem;

use crate::exchange::batch::{Batch, Commands, split_array};
use crate::exchange::{Effect, Env, Io, Step};
use crate::layout::{Layout, NamespaceIndex, Physical};
use crate::resp::{Answer, Protocol, Reply, write_command};
use crate::string::glob;

/// Buckets opened in one round trip.
const BUCKETS_AT_ONCE: usize = 128;

/// Sorts physical keys into logical ones and buckets that are to be opened, and opens them.
#[derive(Debug, Default)]
struct Unfold {
    pattern: Option<Vec<u8>>,
    keys: Vec<Vec<u8>>,
    buckets: Vec<(NamespaceIndex, Vec<u8>)>,
    opening: Vec<(NamespaceIndex, Vec<u8>)>,
    batch: Option<Batch>,
}

impl Unfold {
    /// Takes physical keys; `kinds` says which count.
    fn take(&mut self, env: &Env<'_>, physical: Reply<'_>, plain: bool, folded: bool) {
        let Reply::Array(names) = physical else { return };
        for name in names.filter_map(Reply::bytes) {
            match env.layout.read_physical(name) {
                Physical::Plain if plain => self.show(name.to_vec()),
                Physical::Zipped { key, .. } if plain => self.show(key),
                Physical::Bucket(namespace) if folded => self.buckets.push((namespace, name.to_vec())),
                _ => {}
            }
        }
    }

    fn show(&mut self, key: Vec<u8>) {
        // A lone star is no pattern to the server; it shows the empty key too.
        if self.pattern.as_ref().is_none_or(|pattern| pattern == b"*" || glob::matches(pattern, &key)) {
            self.keys.push(key);
        }
    }

    /// Opens some buckets; none when all are open.
    fn open_next(&mut self, wire: &mut Vec<u8>) -> Option<Step> {
        if self.buckets.is_empty() {
            return None;
        }
        let rest = self.buckets.len().saturating_sub(BUCKETS_AT_ONCE);
        self.opening = self.buckets.split_off(rest);
        let mut commands = Commands::default();
        for (_, name) in &self.opening {
            commands.push(&[b"HGETALL", name]);
        }
        let batch = Batch::send(&commands, wire);
        let replies = batch.left();
        self.batch = Some(batch);
        Some(Step::More(replies))
    }

    /// Takes a reply to HGETALL; true once all of the round trip are there.
    fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>) -> Result<bool, Vec<u8>> {
        let Some(batch) = &mut self.batch else { return Ok(true) };
        if !batch.handle_reply(reply) {
            return Ok(false);
        }
        let replies = batch.take()?;
        for ((namespace, bucket), raw) in mem::take(&mut self.opening).into_iter().zip(replies) {
            let Ok(Reply::Array(mut fields) | Reply::Map(mut fields)) = Reply::parse(&raw) else { return Err(raw) };
            while let (Some(Reply::Bulk(field)), Some(Reply::Bulk(stored))) = (fields.next(), fields.next()) {
                // What can't be decoded is there all the same.
                if env.layout.has_expired_in(&bucket, stored, env.now_ms) {
                    continue;
                }
                if let Some(key) = env.layout.key_of(namespace, &bucket, field) {
                    self.show(key);
                }
            }
        }
        Ok(true)
    }
}

/// KEYS and SCAN.
#[derive(Debug)]
pub(crate) struct List {
    protocol: Protocol,
    unfold: Unfold,
    /// The reads of physical names; taken when they are there.
    names: Option<Batch>,
    /// SCAN's next cursor.
    cursor: Option<Vec<u8>>,
    kind: ListKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListKind {
    Keys,
    /// One SCAN whose names are all wanted.
    Scan,
    /// Two SCANs of the same cursor: keys of the type asked for, and buckets where that is string.
    ScanType {
        strings: bool,
    },
}

impl List {
    /// KEYS pattern; with the number of replies to come.
    pub(crate) fn keys(layout: &Layout, pattern: &[u8], protocol: Protocol, wire: &mut Vec<u8>) -> (Self, u32) {
        let mut commands = Commands::default();
        commands.push(&[b"KEYS", pattern]);
        for glob in layout.bucket_globs() {
            commands.push(&[b"KEYS", &glob]);
        }
        Self::start(Some(pattern.to_vec()), &commands, ListKind::Keys, protocol, wire)
    }

    /// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]; with the number of replies to come.
    ///
    /// # Errors
    /// The error the server gives for arguments like these.
    pub(crate) fn scan(args: &[&[u8]], protocol: Protocol, wire: &mut Vec<u8>) -> Result<(Self, u32), &'static str> {
        let mut pattern = None;
        let mut count: &[u8] = b"10";
        let mut kind = None;
        let mut options = args[2..].iter();
        while let Some(option) = options.next() {
            let value = options.next().ok_or("ERR syntax error")?;
            match option.to_ascii_lowercase().as_slice() {
                b"match" => pattern = Some(value.to_vec()),
                b"count" => count = value,
                b"type" => kind = Some(*value),
                _ => return Err("ERR syntax error"),
            }
        }
        let mut commands = Commands::default();
        let Some(kind) = kind else {
            commands.push(&[b"SCAN", args[1], b"COUNT", count]);
            return Ok(Self::start(pattern, &commands, ListKind::Scan, protocol, wire));
        };
        // Both walk the same slots of the server's table in one step, so they end at the same cursor.
        commands.push(&[b"SCAN", args[1], b"COUNT", count, b"TYPE", kind]);
        commands.push(&[b"SCAN", args[1], b"COUNT", count, b"TYPE", b"hash"]);
        let strings = kind.eq_ignore_ascii_case(b"string");
        Ok(Self::start(pattern, &commands, ListKind::ScanType { strings }, protocol, wire))
    }

    fn start(
        pattern: Option<Vec<u8>>,
        commands: &Commands,
        kind: ListKind,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let batch = Batch::send_atomic(commands, wire);
        let replies = batch.left();
        let unfold = Unfold { pattern, ..Unfold::default() };
        (Self { protocol, unfold, names: Some(batch), cursor: None, kind }, replies)
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let taken = match &mut self.names {
            Some(batch) => {
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                let replies = batch.take();
                self.names = None;
                replies.and_then(|replies| self.take_names(&replies, env))
            }
            None => self.unfold.handle_reply(reply, env).map(|_| ()),
        };
        if let Err(error) = taken {
            io.answer.extend_from_slice(&error);
            return Step::Done(Effect::None);
        }
        if self.unfold.batch.as_ref().is_some_and(|batch| batch.left() > 0) {
            return Step::Wait;
        }
        self.unfold.open_next(io.wire).unwrap_or_else(|| self.finish(io))
    }

    fn take_names(&mut self, replies: &[Vec<u8>], env: &Env<'_>) -> Result<(), Vec<u8>> {
        for (index, raw) in replies.iter().enumerate() {
            let first = index == 0;
            let parsed = Reply::parse(raw).map_err(|_| raw.clone())?;
            let Reply::Array(mut parts) = parsed else { return Err(raw.clone()) };
            match self.kind {
                ListKind::Keys => self.unfold.take(env, parsed, true, !first),
                ListKind::Scan | ListKind::ScanType { .. } => {
                    self.cursor = parts.next().and_then(Reply::bytes).map(<[u8]>::to_vec);
                    let names = parts.next().ok_or_else(|| raw.clone())?;
                    let strings = matches!(self.kind, ListKind::Scan | ListKind::ScanType { strings: true });
                    let plain = self.kind == ListKind::Scan || first;
                    let folded = self.kind == ListKind::Scan || (!first && strings);
                    self.unfold.take(env, names, plain, folded);
                }
            }
        }
        if self.kind == ListKind::Keys {
            // A zipped key's physical name may match the pattern by itself, and the reserved names always do.
            self.unfold.keys.sort_unstable();
            self.unfold.keys.dedup();
            // What one glob finds, another may find too.
            self.unfold.buckets.sort_unstable();
            self.unfold.buckets.dedup();
        }
        Ok(())
    }

    fn finish(&mut self, io: &mut Io<'_>) -> Step {
        let mut answer = Answer::new(io.answer, self.protocol);
        if let Some(cursor) = &self.cursor {
            answer.array(2);
            answer.bulk(cursor);
        }
        answer.array(self.unfold.keys.len());
        for key in &self.unfold.keys {
            answer.bulk(key);
        }
        Step::Done(Effect::None)
    }
}

/// DBSIZE: the server's count, with each bucket counted by its fields.
#[derive(Debug)]
pub(crate) struct Size {
    total: i64,
    phase: SizePhase,
}

#[derive(Debug)]
enum SizePhase {
    Total,
    Names,
    Buckets { batch: Batch, cursor: Vec<u8> },
}

impl Size {
    /// Sends DBSIZE; it has one reply.
    pub(crate) fn start(wire: &mut Vec<u8>) -> Self {
        write_command(wire, &[b"DBSIZE"]);
        Self { total: 0, phase: SizePhase::Total }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match (&mut self.phase, Reply::parse(reply)) {
            (SizePhase::Total, Ok(Reply::Integer(count))) => {
                self.total = count;
                self.scan(b"0", io)
            }
            (SizePhase::Names, Ok(Reply::Array(mut parts))) => {
                let cursor = parts.next().and_then(Reply::bytes).unwrap_or(b"0").to_vec();
                let names = parts.next();
                self.take_names(names, cursor, env, io)
            }
            (SizePhase::Buckets { batch, cursor }, Ok(Reply::Integer(fields))) => {
                self.total += fields;
                if !batch.handle_reply(reply) {
                    return Step::Wait;
                }
                let cursor = mem::take(cursor);
                self.scan(&cursor, io)
            }
            _ => {
                // Replies to commands sent together may still be on their way; they are waited for.
                if let SizePhase::Buckets { batch, .. } = &mut self.phase
                    && !batch.handle_reply(reply)
                {
                    return Step::Wait;
                }
                io.answer.extend_from_slice(reply);
                Step::Done(Effect::None)
            }
        }
    }

    fn scan(&mut self, cursor: &[u8], io: &mut Io<'_>) -> Step {
        if cursor == b"0" && !matches!(self.phase, SizePhase::Total) {
            Answer::new(io.answer, Protocol::Resp2).integer(self.total);
            return Step::Done(Effect::None);
        }
        write_command(io.wire, &[b"SCAN", cursor, b"COUNT", b"2000"]);
        self.phase = SizePhase::Names;
        Step::More(1)
    }

    fn take_names(&mut self, names: Option<Reply<'_>>, cursor: Vec<u8>, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut commands = Commands::default();
        if let Some(Reply::Array(names)) = names {
            for name in names.filter_map(Reply::bytes) {
                match env.layout.read_physical(name) {
                    Physical::Plain | Physical::Zipped { .. } => {}
                    Physical::Bucket(_) => {
                        self.total -= 1;
                        commands.push(&[b"HLEN", name]);
                    }
                    Physical::Administration | Physical::Spill { .. } | Physical::Unknown => self.total -= 1,
                }
            }
        }
        if commands.count() == 0 {
            return self.scan(&cursor, io);
        }
        let batch = Batch::send(&commands, io.wire);
        let replies = batch.left();
        self.phase = SizePhase::Buckets { batch, cursor };
        Step::More(replies)
    }
}

/// RANDOMKEY: a random physical key, and a random field where it is a bucket. After some misses (keyfold's
/// own keys, expired fields) the first key that a walk finds.
#[derive(Debug)]
pub(crate) struct Random {
    protocol: Protocol,
    misses: u32,
    bucket: Option<(NamespaceIndex, Vec<u8>)>,
    walk: Option<Box<List>>,
}

impl Random {
    /// Sends RANDOMKEY; it has one reply.
    pub(crate) fn start(protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        write_command(wire, &[b"RANDOMKEY"]);
        Self { protocol, misses: 0, bucket: None, walk: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if self.walk.is_some() {
            return self.walk_on(reply, env, io);
        }
        if let Some((namespace, name)) = self.bucket.take() {
            return match random_field(reply, env, namespace, &name) {
                Some(key) => self.finish(&key, io),
                None => self.miss(io),
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
                _ => self.miss(io),
            },
            _ => {
                io.answer.extend_from_slice(reply);
                Step::Done(Effect::None)
            }
        }
    }

    fn miss(&mut self, io: &mut Io<'_>) -> Step {
        self.misses += 1;
        if self.misses < 8 {
            write_command(io.wire, &[b"RANDOMKEY"]);
            return Step::More(1);
        }
        self.walk_from(b"0", io)
    }

    fn walk_from(&mut self, cursor: &[u8], io: &mut Io<'_>) -> Step {
        match List::scan(&[b"SCAN", cursor, b"COUNT", b"100"], self.protocol, io.wire) {
            Ok((list, replies)) => {
                self.walk = Some(Box::new(list));
                Step::More(replies)
            }
            Err(message) => {
                Answer::new(io.answer, self.protocol).error(message);
                Step::Done(Effect::None)
            }
        }
    }

    fn walk_on(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let Some(walk) = &mut self.walk else { return Step::Wait };
        let mut unused = Vec::new();
        let step = walk.handle_reply(reply, env, &mut Io { wire: io.wire, answer: &mut unused });
        if !matches!(step, Step::Done(_)) {
            return step;
        }
        if unused.first() == Some(&b'-') {
            io.answer.append(&mut unused);
            return step;
        }
        if let Some(key) = walk.unfold.keys.first() {
            let key = key.clone();
            return self.finish(&key, io);
        }
        match walk.cursor.take() {
            Some(cursor) if cursor != b"0" => self.walk_from(&cursor, io),
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
    if env.layout.has_expired_in(bucket, stored, env.now_ms) {
        return None;
    }
    env.layout.key_of(namespace, bucket, field)
}
