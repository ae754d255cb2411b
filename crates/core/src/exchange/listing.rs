//! KEYS and SCAN: logical keys are shown, buckets never.
//!
//! Both walk by the server's own SCAN, in steps that are short for the server whatever there is: at most
//! [`SLOTS_AT_ONCE`] slots of its table, then the buckets among what was found, by HSCAN, some [`FIELDS_AT_ONCE`]
//! fields at a time. Between two steps the server answers others. HSCAN gives a listpack whole, and a hashtable, which
//! may be of any size, in pieces; so both show what is there all the time at least once.
//!
//! KEYS goes round once and shows each key once. SCAN's COUNT is of logical keys: it takes as many slots as hold so
//! many by what the slots before held, and goes on until it came by COUNT keys or slots. Its cursor is the server's,
//! so any keyfold goes on where another one was; a bucket is therefore shown whole.
//!
//! Where only some names are of interest, several SCANs of one cursor go in one MULTI: they walk the same slots.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::exchange::batch::{Batch, Commands};
use crate::exchange::{Effect, Env, Io, Refusal, Step};
use crate::glob;
use crate::layout::{Layout, Physical};
use crate::number::parse_integer;
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol, Reply};
use crate::walk::{BucketWalk, read_page};

/// Slots of the server's table that one step looks at: some tenths of a millisecond.
const SLOTS_AT_ONCE: u64 = 1000;
/// Fields that the buckets of one step have, about.
const FIELDS_AT_ONCE: u64 = 1000;
/// Fields of a bucket that hasn't been seen yet.
const USUAL_FIELDS: u64 = 128;
/// Keys that a slot may hold as long as nothing is known of it: a first step is short, and the next ones grow.
const CAUTIOUS_FILL: u64 = 256;
/// A step's length follows from what the slots before it held: it looks at no more than so many times all of these.
const GROWTH: u64 = 8;

/// What the replies that are awaited are.
#[derive(Debug)]
enum Awaited {
    Names { batch: Batch, slots: u64 },
    Fields { batch: Batch, opened: Vec<BucketWalk> },
}

/// What one of the SCANs of a step is for.
#[derive(Debug)]
struct Part {
    /// MATCH or TYPE with its value.
    filter: Option<[Vec<u8>; 2]>,
    /// Whether keys of their own are shown from it, and whether buckets are opened.
    own: bool,
    buckets: bool,
}

/// How far a list goes.
#[derive(Debug)]
enum Extent {
    /// KEYS: one round, showing each key once. For each key's digest: where its bytes begin among those shown.
    Around(BTreeMap<u64, usize>),
    /// SCAN: until so many keys or slots were come by.
    Count { wanted: u64, done: u64 },
}

/// KEYS and SCAN.
#[derive(Debug)]
pub(crate) struct List {
    protocol: Protocol,
    pattern: Option<Vec<u8>>,
    parts: Vec<Part>,
    extent: Extent,
    /// Where the server's SCAN goes on.
    cursor: Vec<u8>,
    awaited: Option<Awaited>,
    buckets: Vec<BucketWalk>,
    /// Slots asked for, and the keys that they held.
    slots: u64,
    seen: u64,
    /// Buckets opened, and their fields.
    opened: u64,
    fields: u64,
    /// The keys to show, as bulk strings.
    shown: Vec<u8>,
    count: usize,
}

impl List {
    /// KEYS pattern; with the number of replies to come.
    pub(crate) fn keys(env: &Env<'_>, pattern: &[u8], protocol: Protocol, wire: &mut Vec<u8>) -> (Self, u32) {
        let part = |glob: Vec<u8>, buckets| Part { filter: Some([b"MATCH".to_vec(), glob]), own: true, buckets };
        // A lone star asks for all names. For another pattern the server looks for matching names and for buckets.
        let parts = if pattern == b"*" {
            vec![Part { filter: None, own: true, buckets: true }]
        } else {
            let globs = env.layout.bucket_globs().into_iter().map(|glob| part(glob, true));
            std::iter::once(part(pattern.to_vec(), false)).chain(globs).collect()
        };
        let mut list = Self::new(Some(pattern), parts, Extent::Around(BTreeMap::new()), b"0", protocol);
        let replies = list.send_names(SLOTS_AT_ONCE.to_string().as_bytes(), SLOTS_AT_ONCE, wire);
        (list, replies)
    }

    /// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]; with the number of replies to come.
    ///
    /// # Errors
    /// The error the server gives for arguments like these.
    pub(crate) fn scan(
        env: &Env<'_>,
        args: &[&[u8]],
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Result<(Self, u32), &'static str> {
        let (mut pattern, mut count, mut kind) = (None, &b"10"[..], None);
        let mut options = args[2..].iter();
        while let Some(option) = options.next() {
            let value = options.next().ok_or("ERR syntax error")?;
            match option {
                option if is_word(option, "match") => pattern = Some(*value),
                option if is_word(option, "count") => count = value,
                option if is_word(option, "type") => kind = Some(*value),
                _ => return Err("ERR syntax error"),
            }
        }
        let typed = |kind: &[u8], own, buckets| Part { filter: Some([b"TYPE".to_vec(), kind.to_vec()]), own, buckets };
        let parts = match kind {
            None => vec![Part { filter: None, own: true, buckets: true }],
            Some(kind) if is_word(kind, "string") => {
                vec![typed(kind, true, false), typed(b"hash", false, true)]
            }
            Some(kind) => vec![typed(kind, true, false)],
        };
        let wanted = parse_integer(count).and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        let extent = Extent::Count { wanted: wanted.unwrap_or(1), done: 0 };
        let mut list = Self::new(pattern, parts, extent, args[1], protocol);
        let slots = list.next_slots(env);
        let asked = slots.to_string();
        // What is no count the server refuses in its own words.
        let asked = if wanted.is_some() { asked.as_bytes() } else { count };
        let replies = list.send_names(asked, slots, wire);
        Ok((list, replies))
    }

    fn new(pattern: Option<&[u8]>, parts: Vec<Part>, extent: Extent, cursor: &[u8], protocol: Protocol) -> Self {
        Self {
            protocol,
            pattern: pattern.map(<[u8]>::to_vec),
            parts,
            extent,
            cursor: cursor.to_vec(),
            awaited: None,
            buckets: Vec::new(),
            slots: 0,
            seen: 0,
            opened: 0,
            fields: 0,
            shown: Vec::new(),
            count: 0,
        }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let is_whole = match &mut self.awaited {
            Some(Awaited::Names { batch, .. } | Awaited::Fields { batch, .. }) => batch.is_last(reply),
            None => true,
        };
        if !is_whole {
            return Step::Wait;
        }
        if let Some(Awaited::Names { batch, .. } | Awaited::Fields { batch, .. }) = &mut self.awaited
            && let Some(replies) = batch.again(io.wire)
        {
            return Step::More(replies);
        }
        let taken = match self.awaited.take() {
            Some(Awaited::Names { mut batch, slots }) => {
                batch.take().and_then(|replies| self.take_names(&replies, slots, env))
            }
            Some(Awaited::Fields { mut batch, opened }) => {
                batch.take().and_then(|replies| self.take_fields(&replies, opened, env))
            }
            None => Ok(()),
        };
        if let Err(refusal) = taken {
            return refusal.end(io);
        }
        self.go_on(env, io)
    }

    /// The next step: buckets that aren't opened yet, more names, or the answer.
    fn go_on(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if !self.buckets.is_empty() {
            return Step::More(self.send_fields(io.wire));
        }
        if self.is_complete() {
            if matches!(self.extent, Extent::Count { .. }) && self.parts[0].filter.is_none() {
                env.stats.note_slots(self.slots, self.seen);
            }
            return self.finish(io);
        }
        let slots = self.next_slots(env);
        Step::More(self.send_names(slots.to_string().as_bytes(), slots, io.wire))
    }

    fn is_complete(&self) -> bool {
        let is_around = self.cursor == b"0" && self.slots > 0;
        match self.extent {
            Extent::Around(_) => is_around,
            Extent::Count { wanted, done } => is_around || done >= wanted,
        }
    }

    /// How many slots the next step looks at: as many as hold the keys that are left to come by.
    fn next_slots(&self, env: &Env<'_>) -> u64 {
        let Extent::Count { wanted, done } = self.extent else { return SLOTS_AT_ONCE };
        let left = wanted - done.min(wanted);
        let opens = self.parts.iter().any(|part| part.buckets) && !env.layout.is_empty();
        if !opens {
            return left.clamp(1, SLOTS_AT_ONCE);
        }
        // The keys to a slot, as this list and the lists before it have found.
        let (slots, keys) = env.stats.slots_and_keys();
        let (slots, keys) = (slots + self.slots, keys + self.seen);
        if slots == 0 {
            return (left / CAUTIOUS_FILL).clamp(1, SLOTS_AT_ONCE);
        }
        (left.saturating_mul(slots) / keys.max(slots)).clamp(1, (slots * GROWTH).min(SLOTS_AT_ONCE))
    }

    fn send_names(&mut self, count: &[u8], slots: u64, wire: &mut Vec<u8>) -> u32 {
        let mut commands = Commands::default();
        for part in &self.parts {
            match &part.filter {
                None => commands.push(&[b"SCAN", &self.cursor, b"COUNT", count]),
                Some([option, value]) => commands.push(&[b"SCAN", &self.cursor, b"COUNT", count, option, value]),
            }
        }
        let (batch, replies) = Batch::send_atomic(&commands, wire);
        self.awaited = Some(Awaited::Names { batch, slots });
        replies
    }

    fn take_names(&mut self, replies: &[Vec<u8>], slots: u64, env: &Env<'_>) -> Result<(), Refusal> {
        let mut cursors = Vec::with_capacity(replies.len());
        let mut names = Vec::with_capacity(replies.len());
        for raw in replies {
            let page = Reply::parse(raw).ok().and_then(read_page);
            let (cursor, found) = page.ok_or_else(|| Refusal::of(raw))?;
            cursors.push(cursor);
            names.push(found);
        }
        if cursors.windows(2).any(|pair| pair[0] != pair[1]) {
            // The table was made larger or smaller between two of them: once more from the same cursor.
            return Ok(());
        }
        self.cursor = cursors.first().copied().unwrap_or(b"0").to_vec();
        self.slots += slots;
        let before = self.seen;
        for (index, names) in names.into_iter().enumerate() {
            let Part { own, buckets, .. } = self.parts[index];
            for name in names.filter_map(Reply::bytes) {
                self.take_name(name, own, buckets, env.layout);
            }
        }
        if let Extent::Count { done, .. } = &mut self.extent {
            *done += slots.max(self.seen - before);
        }
        Ok(())
    }

    fn take_name(&mut self, name: &[u8], own: bool, buckets: bool, layout: &Layout) {
        match layout.read_physical(name) {
            Physical::Plain if own => self.show(name),
            Physical::Zipped { key, .. } if own => self.show(&key),
            Physical::Bucket(namespace) if buckets => {
                self.buckets.push(BucketWalk::new(namespace, name));
            }
            _ => {}
        }
    }

    fn send_fields(&mut self, wire: &mut Vec<u8>) -> u32 {
        let mean = self.fields.checked_div(self.opened).unwrap_or(USUAL_FIELDS).max(1);
        let at_once = usize::try_from((FIELDS_AT_ONCE / mean).clamp(1, FIELDS_AT_ONCE / 10)).unwrap_or(1);
        let opened = self.buckets.split_off(self.buckets.len().saturating_sub(at_once));
        let mut commands = Commands::default();
        for bucket in &opened {
            let mut step = Vec::new();
            bucket.send(&mut step);
            commands.push_bytes(&step);
        }
        let (batch, replies) = Batch::send(&commands, wire);
        self.awaited = Some(Awaited::Fields { batch, opened });
        replies
    }

    fn take_fields(&mut self, replies: &[Vec<u8>], opened: Vec<BucketWalk>, env: &Env<'_>) -> Result<(), Refusal> {
        let before = self.seen;
        for (mut bucket, raw) in opened.into_iter().zip(replies) {
            let fields = Reply::parse(raw).ok().and_then(|reply| bucket.take(reply).ok());
            let fields = fields.ok_or_else(|| Refusal::of(raw))?;
            self.opened += 1;
            for (field, stored) in fields {
                self.fields += 1;
                // What can't be decoded is there all the same.
                if env.layout.has_expired_in(bucket.name(), stored, env.now_ms) {
                    self.seen += 1;
                } else if let Some(key) = env.layout.key_of(bucket.namespace(), bucket.name(), field) {
                    self.show(&key);
                }
            }
            if !bucket.is_over() {
                self.buckets.push(bucket);
            }
        }
        if let Extent::Count { done, .. } = &mut self.extent {
            *done += self.seen - before;
        }
        Ok(())
    }

    /// Counts a key, and shows it where it matches.
    fn show(&mut self, key: &[u8]) {
        self.seen += 1;
        // A lone star is no pattern to the server; it shows the empty key too.
        if self.pattern.as_ref().is_some_and(|pattern| pattern != b"*" && !glob::matches(pattern, key)) {
            return;
        }
        let at = self.shown.len();
        if let Extent::Around(known) = &mut self.extent
            && !is_new(known, &self.shown, key, at)
        {
            return;
        }
        Answer::new(&mut self.shown, self.protocol).bulk(key);
        self.count += 1;
    }

    fn finish(&mut self, io: &mut Io<'_>) -> Step {
        let mut answer = Answer::new(io.answer, self.protocol);
        if matches!(self.extent, Extent::Count { .. }) {
            answer.array(2);
            answer.bulk(&self.cursor);
        }
        answer.array(self.count);
        io.answer.extend_from_slice(&self.shown);
        Step::Done(Effect::None)
    }
}

/// Whether a key wasn't shown before; it is noted as shown at `at`.
fn is_new(known: &mut BTreeMap<u64, usize>, shown: &[u8], key: &[u8], at: usize) -> bool {
    let mut digest = xxh3_64(key);
    while let Some(earlier) = known.get(&digest) {
        if matches!(Reply::parse(&shown[*earlier..]), Ok(Reply::Bulk(other)) if other == key) {
            return false;
        }
        digest = digest.wrapping_add(1);
    }
    known.insert(digest, at);
    true
}
