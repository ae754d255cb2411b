//! KEYS, SCAN, DBSIZE and the keys of one slot, before a cluster: names come slot by slot ([`SlotWalk`]), and the buckets
//! among them are opened where their slots are.
//!
//! Buckets of several slots lie at one node as long as none of these moves, and are opened there by one script, which
//! says where that isn't so. Then each slot's are asked for apart, and follow it.
//!
//! HSCAN's cursor is of use only to the process that gave it. A bucket that doesn't come whole at once is therefore
//! walked by steps that say which process answers, and begins anew where it is another.

use crate::cluster::Position;
use crate::exchange::batch::{Batch, Commands, split_array};
use crate::exchange::listing::{FIELDS_AT_ONCE, Opens, Part, SLOTS_AT_ONCE, ScanOptions, USUAL_FIELDS, slots_for};
use crate::exchange::shown::Shown;
use crate::exchange::slot_walk::{Brought, Found, SlotWalk};
use crate::exchange::{Effect, Env, Io, Refusal, Step};
use crate::layout::{Layout, Physical};
use crate::resp::{Answer, Protocol, Reply, write_command};
use crate::slot::Slot;
use crate::walk::BucketWalk;

const BUCKET_PAGE: &str = include_str!("bucket_page.lua");

/// What the reply that is awaited is.
#[derive(Debug)]
enum Awaited {
    /// To a step of the walk, which asked for so many names.
    Names(u64),
    /// To buckets of one slot.
    Fields { batch: Batch, opened: Vec<BucketWalk> },
    /// To buckets of several slots, at once.
    Together(Vec<BucketWalk>),
    /// To a step through a large bucket.
    Large(LargeBucket),
}

/// A bucket that doesn't come whole at once, and which process gave what has come of it.
#[derive(Debug)]
struct LargeBucket {
    walk: BucketWalk,
    run_id: Vec<u8>,
}

/// How far a list goes, and what of it is answered.
#[derive(Debug)]
enum Extent {
    /// All keys, each once, or so many of them.
    Keys { at_most: usize },
    /// SCAN: until so many were come by.
    Count { wanted: u64, done: u64 },
    /// How many there are; buckets count as their fields.
    Number,
}

/// A list of logical keys.
#[derive(Debug)]
pub(crate) struct SlotList {
    protocol: Protocol,
    parts: Vec<Part>,
    extent: Extent,
    walk: SlotWalk,
    /// The slot that the commands sent last are of.
    slot: Slot,
    awaited: Option<Awaited>,
    buckets: Vec<BucketWalk>,
    large: Vec<LargeBucket>,
    /// Buckets of several slots are not where one node has them all.
    apart: bool,
    /// Names that were come by, buckets opened, and their fields.
    names: u64,
    opened: u64,
    fields: u64,
    number: i64,
    shown: Shown,
}

impl SlotList {
    /// KEYS pattern. Each of these sends one command.
    pub(crate) fn keys(env: &Env<'_>, pattern: &[u8], protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        let extent = Extent::Keys { at_most: usize::MAX };
        Self::over_all(env, Some(pattern), extent, protocol, wire)
    }

    /// DBSIZE.
    pub(crate) fn number(env: &Env<'_>, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        Self::over_all(env, None, Extent::Number, protocol, wire)
    }

    /// CLUSTER GETKEYSINSLOT: so many keys of a slot.
    pub(crate) fn keys_of(env: &Env<'_>, slot: Slot, at_most: usize, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        let walk = SlotWalk::new(Position::start_of(slot), slot, env.server);
        Self::start(env, walk, None, vec![Part::all()], Extent::Keys { at_most }, protocol, wire)
    }

    /// CLUSTER COUNTKEYSINSLOT.
    pub(crate) fn number_of(env: &Env<'_>, slot: Slot, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        let walk = SlotWalk::new(Position::start_of(slot), slot, env.server);
        Self::start(env, walk, None, vec![Part::all()], Extent::Number, protocol, wire)
    }

    /// SCAN from a position on, with these options.
    ///
    /// # Errors
    /// The error the server gives for arguments like these.
    pub(crate) fn scan(
        env: &Env<'_>,
        from: Position,
        args: &[&[u8]],
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Result<Self, &'static str> {
        let options = ScanOptions::read(args)?;
        let walk = SlotWalk::new(from, Slot::LAST, env.server);
        let extent = Extent::Count { wanted: options.count, done: 0 };
        Ok(Self::start(env, walk, options.pattern, options.parts(), extent, protocol, wire))
    }

    fn over_all(env: &Env<'_>, pattern: Option<&[u8]>, extent: Extent, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        let walk = SlotWalk::new(Position::start_of(Slot::FIRST), Slot::LAST, env.server);
        Self::start(env, walk, pattern, vec![Part::all()], extent, protocol, wire)
    }

    fn start(
        env: &Env<'_>,
        walk: SlotWalk,
        pattern: Option<&[u8]>,
        parts: Vec<Part>,
        extent: Extent,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Self {
        let mut list = Self {
            protocol,
            shown: Shown::new(pattern, matches!(extent, Extent::Keys { .. }), protocol),
            parts,
            extent,
            slot: walk.slot(),
            walk,
            awaited: None,
            buckets: Vec::new(),
            large: Vec::new(),
            apart: false,
            names: 0,
            opened: 0,
            fields: 0,
            number: 0,
        };
        list.send_names(env, wire);
        list
    }

    /// The slot that the commands sent last are of.
    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let taken = match self.awaited.take() {
            Some(Awaited::Fields { mut batch, opened }) => match batch.handle_reply(reply) {
                None => {
                    self.awaited = Some(Awaited::Fields { batch, opened });
                    return Step::Wait;
                }
                Some(replies) => replies.and_then(|replies| self.take_buckets(&replies, opened, env)),
            },
            Some(Awaited::Names(asked)) => {
                self.walk.take(reply).map(|brought| self.take_names(brought, asked, env.layout))
            }
            Some(Awaited::Together(opened)) => self.take_together(reply, opened, env),
            Some(Awaited::Large(bucket)) => self.take_large(reply, bucket, env),
            None => Ok(()),
        };
        match taken {
            Ok(()) => self.go_on(env, io),
            Err(refusal) => refusal.end(io),
        }
    }

    /// The next step: buckets that aren't opened yet, more names, or the answer.
    fn go_on(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if self.is_complete() {
            return self.finish(env, io);
        }
        if let Some(bucket) = self.large.pop() {
            self.slot = Slot::of(bucket.walk.name());
            let count = FIELDS_AT_ONCE.to_string();
            let call = [
                env.server.read_only_eval(),
                BUCKET_PAGE.as_bytes(),
                b"1",
                bucket.walk.name(),
                bucket.walk.cursor(),
                count.as_bytes(),
            ];
            write_command(io.wire, &call);
            self.awaited = Some(Awaited::Large(bucket));
            return Step::More(1);
        }
        if !self.buckets.is_empty() {
            return Step::More(self.send_buckets(env, io.wire));
        }
        self.send_names(env, io.wire);
        Step::More(1)
    }

    fn is_complete(&self) -> bool {
        let has_opened_all = self.large.is_empty() && self.buckets.is_empty();
        match self.extent {
            Extent::Keys { at_most } if self.shown.count() >= at_most => true,
            _ if !has_opened_all => false,
            Extent::Keys { .. } | Extent::Number => self.walk.is_over(),
            Extent::Count { wanted, done } => self.walk.is_over() || done >= wanted && self.walk.may_rest(),
        }
    }

    fn finish(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        match self.extent {
            Extent::Keys { .. } => self.shown.write_keys(io.answer),
            Extent::Number => Answer::new(io.answer, self.protocol).integer(self.number),
            Extent::Count { .. } => {
                if self.parts[0].filter.is_none() {
                    env.stats.note_slots(self.names, self.shown.seen);
                }
                self.shown.write_page(self.walk.cursor().to_string().as_bytes(), io.answer);
            }
        }
        Step::Done(Effect::None)
    }

    fn send_names(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) {
        let count = match self.extent {
            Extent::Count { wanted, done } => {
                let left = wanted - done.min(wanted);
                let opens = self.parts.iter().any(|part| part.opens != Opens::None) && !env.layout.is_empty();
                if opens { slots_for(left, self.names, self.shown.seen, env) } else { left.clamp(1, SLOTS_AT_ONCE) }
            }
            Extent::Keys { .. } | Extent::Number => SLOTS_AT_ONCE,
        };
        let kinds: Vec<&[u8]> =
            self.parts.iter().filter_map(|part| Some(part.filter.as_ref()?[1].as_slice())).collect();
        self.slot = self.walk.slot();
        self.walk.send(count, &kinds, wire);
        self.awaited = Some(Awaited::Names(count));
    }

    fn take_names(&mut self, brought: Brought, asked: u64, layout: &Layout) {
        let Brought::Names(found, beside) = brought else { return };
        let len = found.len() as u64;
        self.names += len.clamp(1, asked.max(1));
        let before = self.shown.seen;
        for Found { name, kind, part } in found {
            let is_of = |part: &Part| match (&part.filter, &kind) {
                (Some([_, wanted]), Some(kind)) => wanted.eq_ignore_ascii_case(kind),
                _ => true,
            };
            let of_all = kind.as_ref().map_or(part..part + 1, |_| 0..self.parts.len());
            let Some(part) = self.parts.get(of_all).and_then(|parts| parts.iter().find(|part| is_of(part))) else {
                continue;
            };
            self.take_name(&name, part.own, part.opens, layout);
        }
        if let Extent::Count { done, .. } = &mut self.extent {
            let looked_at = if self.parts[0].filter.is_some() { asked } else { len.max(1) };
            *done += (looked_at + beside).max(self.shown.seen - before);
        }
    }

    fn take_name(&mut self, name: &[u8], own: bool, opens: Opens, layout: &Layout) {
        match layout.read_physical(name) {
            Physical::Plain if own => self.take_key(name),
            Physical::Zipped { key, .. } if own => self.take_key(&key),
            Physical::Bucket(namespace) if opens.opens(namespace, layout) => {
                self.buckets.push(BucketWalk::new(namespace, name));
            }
            _ => {}
        }
    }

    fn take_key(&mut self, key: &[u8]) {
        match self.extent {
            Extent::Number => self.number += 1,
            Extent::Keys { at_most } if self.shown.count() >= at_most => {}
            _ => self.shown.take(key),
        }
    }

    fn send_buckets(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let mean = self.fields.checked_div(self.opened).unwrap_or(USUAL_FIELDS).max(1);
        let at_once = usize::try_from((FIELDS_AT_ONCE / mean).clamp(1, FIELDS_AT_ONCE / 10)).unwrap_or(1);
        let slots: Vec<Slot> = self.buckets.iter().rev().take(at_once).map(|bucket| Slot::of(bucket.name())).collect();
        let first = slots.first().copied().unwrap_or(self.slot);
        let alike = slots.iter().take_while(|slot| **slot == first).count();
        let together = !self.apart && alike < slots.len();
        let len = if together { slots.len() } else { alike };
        let opened = self.buckets.split_off(self.buckets.len() - len);
        let mut commands = Commands::default();
        for bucket in &opened {
            match self.extent {
                Extent::Number => commands.push(&[b"HLEN", bucket.name()]),
                _ => {
                    let mut step = Vec::new();
                    bucket.send(&mut step);
                    commands.push_bytes(&step);
                }
            }
        }
        self.slot = first;
        if together {
            commands.send_at_once(env.server, wire);
            self.awaited = Some(Awaited::Together(opened));
            return 1;
        }
        let (batch, replies) = Batch::send(&commands, wire);
        self.awaited = Some(Awaited::Fields { batch, opened });
        replies
    }

    /// Takes what buckets of several slots hold. Where one of them isn't there, all are asked for once more.
    fn take_together(&mut self, reply: &[u8], opened: Vec<BucketWalk>, env: &Env<'_>) -> Result<(), Refusal> {
        let replies = split_array(reply);
        let is_answer = |replies: &Vec<Vec<u8>>| {
            replies.len() == opened.len() && !replies.iter().any(|reply| matches!(reply.first(), Some(b'-' | b'!')))
        };
        match replies.filter(is_answer) {
            Some(replies) => self.take_buckets(&replies, opened, env),
            None if matches!(reply.first(), Some(b'*' | b'-' | b'!')) => {
                self.apart = true;
                self.buckets.extend(opened);
                Ok(())
            }
            None => Err(Refusal::Unexpected),
        }
    }

    fn take_buckets(&mut self, replies: &[Vec<u8>], opened: Vec<BucketWalk>, env: &Env<'_>) -> Result<(), Refusal> {
        for (mut bucket, raw) in opened.into_iter().zip(replies) {
            if let Extent::Number = self.extent {
                let Ok(Reply::Integer(len)) = Reply::parse(raw) else { return Err(Refusal::of(raw)) };
                self.number += len;
                continue;
            }
            self.opened += 1;
            self.take_fields(&mut bucket, raw, env)?;
            if !bucket.is_over() {
                let walk = BucketWalk::new(bucket.namespace(), bucket.name());
                self.large.push(LargeBucket { walk, run_id: Vec::new() });
            }
        }
        Ok(())
    }

    fn take_large(&mut self, reply: &[u8], mut bucket: LargeBucket, env: &Env<'_>) -> Result<(), Refusal> {
        let parts = split_array(reply).ok_or_else(|| Refusal::of(reply))?;
        let [run_id, page] = parts.as_slice() else { return Err(Refusal::Unexpected) };
        if bucket.walk.is_at_start() || bucket.run_id == *run_id {
            bucket.run_id.clone_from(run_id);
            self.take_fields(&mut bucket.walk, page, env)?;
        } else {
            bucket.walk = BucketWalk::new(bucket.walk.namespace(), bucket.walk.name());
        }
        if !bucket.walk.is_over() {
            self.large.push(bucket);
        }
        Ok(())
    }

    fn take_fields(&mut self, bucket: &mut BucketWalk, raw: &[u8], env: &Env<'_>) -> Result<(), Refusal> {
        let before = self.shown.seen;
        let name = bucket.name().to_vec();
        let fields = Reply::parse(raw).ok().and_then(|reply| bucket.take(reply).ok());
        let fields: Vec<_> = fields.ok_or_else(|| Refusal::of(raw))?.collect();
        for (field, stored) in fields {
            self.fields += 1;
            // What can't be decoded is there all the same.
            if env.layout.has_expired_in(bucket.namespace(), &name, field, stored, env.now_ms) {
                self.shown.seen += 1;
            } else if let Some(key) = env.layout.key_of(bucket.namespace(), &name, field) {
                self.take_key(&key);
            }
        }
        if let Extent::Count { done, .. } = &mut self.extent {
            *done += self.shown.seen - before;
        }
        Ok(())
    }
}
