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

use crate::collection::CollectionKind;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::shown::Shown;
use crate::exchange::{Effect, Env, Io, Refusal, Step};
use crate::layout::{Layout, NamespaceIndex, Physical};
use crate::members::is_cursor;
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::word::is_word;
use crate::resp::{Protocol, Reply};
use crate::slot::Slot;
use crate::walk::{BucketWalk, read_page};

/// Slots of the server's table that one step looks at: some tenths of a millisecond.
pub(super) const SLOTS_AT_ONCE: u64 = 1000;
/// Fields that the buckets of one step have, about.
pub(super) const FIELDS_AT_ONCE: u64 = 1000;
/// Fields of a bucket that hasn't been seen yet.
pub(super) const USUAL_FIELDS: u64 = 128;
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
pub(super) struct Part {
    /// MATCH or TYPE with its value.
    pub(super) filter: Option<[Vec<u8>; 2]>,
    /// Whether keys of their own are shown from it.
    pub(super) own: bool,
    /// Which buckets are opened.
    pub(super) opens: Opens,
}

/// Which buckets are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    None,
    All,
    /// Those whose keys hold these collections, or strings where that is none.
    Of(Option<CollectionKind>),
}

impl Opens {
    /// Whether a bucket of this namespace is opened.
    pub(super) fn opens(self, namespace: NamespaceIndex, layout: &Layout) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(kind) => layout.namespace(namespace).collection() == kind,
        }
    }
}

impl Part {
    /// All names.
    pub(super) fn all() -> Self {
        Self { filter: None, own: true, opens: Opens::All }
    }
}

/// How far a list goes.
#[derive(Debug)]
enum Extent {
    /// KEYS: one round, showing each key once.
    Around,
    /// The same, and only how many they are is answered.
    Number,
    /// SCAN: until so many keys or slots were come by.
    Count { wanted: u64, done: u64 },
}

/// KEYS and SCAN.
#[derive(Debug)]
pub(crate) struct List {
    parts: Vec<Part>,
    extent: Extent,
    /// Where the server's SCAN goes on.
    cursor: Vec<u8>,
    awaited: Option<Awaited>,
    buckets: Vec<BucketWalk>,
    /// Slots asked for; the keys that they held are counted in `shown`.
    slots: u64,
    /// Buckets opened, and their fields.
    opened: u64,
    fields: u64,
    shown: Shown,
}

/// What stands behind SCAN's cursor.
#[derive(Debug)]
pub(super) struct ScanOptions<'a> {
    pub(super) pattern: Option<&'a [u8]>,
    /// Above zero.
    pub(super) count: u64,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads SCAN cursor [MATCH pattern] [COUNT count] [TYPE type].
    ///
    /// # Errors
    /// The error the server gives for arguments like these.
    pub(super) fn read(args: &[&'a [u8]]) -> Result<Self, &'static str> {
        let mut read = Self { pattern: None, count: 10, kind: None };
        let mut options = args[2..].iter();
        while let Some(option) = options.next() {
            let value = options.next().ok_or("ERR syntax error")?;
            match option {
                option if is_word(option, "match") => read.pattern = Some(*value),
                option if is_word(option, "count") => {
                    let count = u64::try_from(parse_integer(value).ok_or(NOT_AN_INTEGER)?).unwrap_or(0);
                    read.count = if count > 0 { count } else { return Err("ERR syntax error") };
                }
                option if is_word(option, "type") => read.kind = Some(*value),
                _ => return Err("ERR syntax error"),
            }
        }
        Ok(read)
    }

    /// The SCANs of a step.
    pub(super) fn parts(&self) -> Vec<Part> {
        let typed = |kind: &[u8], own, opens| Part { filter: Some([b"TYPE".to_vec(), kind.to_vec()]), own, opens };
        // Buckets are hashes.
        let in_buckets = |kind| typed(b"hash", false, Opens::Of(kind));
        match self.kind {
            None => vec![Part::all()],
            Some(kind) if is_word(kind, "string") => vec![typed(kind, true, Opens::None), in_buckets(None)],
            Some(kind) if is_word(kind, "set") => {
                vec![typed(kind, true, Opens::None), in_buckets(Some(CollectionKind::Set))]
            }
            Some(kind) if is_word(kind, "hash") => vec![typed(kind, true, Opens::Of(Some(CollectionKind::Hash)))],
            Some(kind) => vec![typed(kind, true, Opens::None)],
        }
    }
}

impl List {
    /// KEYS pattern; with the number of replies to come.
    pub(crate) fn keys(env: &Env<'_>, pattern: &[u8], protocol: Protocol, wire: &mut Vec<u8>) -> (Self, u32) {
        let part = |glob: Vec<u8>, opens| Part { filter: Some([b"MATCH".to_vec(), glob]), own: true, opens };
        // A lone star asks for all names. For another pattern the server looks for matching names and for buckets.
        let parts = if pattern == b"*" {
            vec![Part::all()]
        } else {
            let globs = env.layout.bucket_globs().into_iter().map(|glob| part(glob, Opens::All));
            std::iter::once(part(pattern.to_vec(), Opens::None)).chain(globs).collect()
        };
        let mut list = Self::new(Some(pattern), parts, Extent::Around, b"0", protocol);
        let replies = list.send_names(SLOTS_AT_ONCE, wire);
        (list, replies)
    }

    /// The keys that would be in a slot if the server were a cluster, or so many of them; their number where there is none
    /// said. Walks over all keys. With the number of replies to come.
    pub(crate) fn of_slot(
        env: &Env<'_>,
        slot: Slot,
        at_most: Option<usize>,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let (mut list, replies) = Self::keys(env, b"*", protocol, wire);
        list.shown = list.shown.only(slot, at_most.unwrap_or(usize::MAX));
        if at_most.is_none() {
            list.extent = Extent::Number;
        }
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
        // A server looks at the cursor first; else it says of that one itself.
        let is_read_on = |error| if is_cursor(args[1], env.dialect()) { error } else { "ERR invalid cursor" };
        let options = ScanOptions::read(args).map_err(is_read_on)?;
        let extent = Extent::Count { wanted: options.count, done: 0 };
        let (pattern, parts) = (options.pattern, options.parts());
        let mut list = Self::new(pattern, parts, extent, args[1], protocol);
        let slots = list.next_slots(env);
        let replies = list.send_names(slots, wire);
        Ok((list, replies))
    }

    fn new(pattern: Option<&[u8]>, parts: Vec<Part>, extent: Extent, cursor: &[u8], protocol: Protocol) -> Self {
        Self {
            shown: Shown::new(pattern, matches!(extent, Extent::Around | Extent::Number), protocol),
            parts,
            extent,
            cursor: cursor.to_vec(),
            awaited: None,
            buckets: Vec::new(),
            slots: 0,
            opened: 0,
            fields: 0,
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
                env.stats.note_slots(self.slots, self.shown.seen);
            }
            return self.finish(io);
        }
        let slots = self.next_slots(env);
        Step::More(self.send_names(slots, io.wire))
    }

    fn is_complete(&self) -> bool {
        let is_around = self.cursor == b"0" && self.slots > 0;
        match self.extent {
            Extent::Around | Extent::Number => is_around,
            Extent::Count { wanted, done } => is_around || done >= wanted,
        }
    }

    /// How many slots the next step looks at: as many as hold the keys that are left to come by.
    fn next_slots(&self, env: &Env<'_>) -> u64 {
        let Extent::Count { wanted, done } = self.extent else { return SLOTS_AT_ONCE };
        let left = wanted - done.min(wanted);
        let opens = self.parts.iter().any(|part| part.opens != Opens::None) && !env.layout.is_empty();
        if !opens {
            return left.clamp(1, SLOTS_AT_ONCE);
        }
        slots_for(left, self.slots, self.shown.seen, env)
    }

    fn send_names(&mut self, slots: u64, wire: &mut Vec<u8>) -> u32 {
        let (mut commands, count) = (Commands::default(), slots.to_string());
        for part in &self.parts {
            match &part.filter {
                None => commands.push(&[b"SCAN", &self.cursor, b"COUNT", count.as_bytes()]),
                Some([option, value]) => {
                    commands.push(&[b"SCAN", &self.cursor, b"COUNT", count.as_bytes(), option, value]);
                }
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
        let before = self.shown.seen;
        for (index, names) in names.into_iter().enumerate() {
            let Part { own, opens, .. } = self.parts[index];
            for name in names.filter_map(Reply::bytes) {
                self.take_name(name, own, opens, env.layout);
            }
        }
        if let Extent::Count { done, .. } = &mut self.extent {
            *done += slots.max(self.shown.seen - before);
        }
        Ok(())
    }

    fn take_name(&mut self, name: &[u8], own: bool, opens: Opens, layout: &Layout) {
        match layout.read_physical(name) {
            Physical::Plain if own => self.shown.take(name),
            Physical::Zipped { key, .. } if own => self.shown.take(&key),
            Physical::Bucket(namespace) if opens.opens(namespace, layout) => {
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
        let before = self.shown.seen;
        for (mut bucket, raw) in opened.into_iter().zip(replies) {
            let fields = Reply::parse(raw).ok().and_then(|reply| bucket.take(reply).ok());
            let fields = fields.ok_or_else(|| Refusal::of(raw))?;
            self.opened += 1;
            for (field, stored) in fields {
                self.fields += 1;
                // What can't be decoded is there all the same.
                if env.layout.has_expired_in(bucket.namespace(), bucket.name(), field, stored, env.now_ms) {
                    self.shown.seen += 1;
                } else if let Some(key) = env.layout.key_of(bucket.namespace(), bucket.name(), field) {
                    self.shown.take(&key);
                }
            }
            if !bucket.is_over() {
                self.buckets.push(bucket);
            }
        }
        if let Extent::Count { done, .. } = &mut self.extent {
            *done += self.shown.seen - before;
        }
        Ok(())
    }

    fn finish(&mut self, io: &mut Io<'_>) -> Step {
        match self.extent {
            Extent::Around => self.shown.write_keys(io.answer),
            Extent::Number => self.shown.write_count(io.answer),
            Extent::Count { .. } => self.shown.write_page(&self.cursor, io.answer),
        }
        Step::Done(Effect::None)
    }
}

/// How many slots of a server's table hold so many keys, as a list and the lists before it have found: it has looked at
/// `slots`, which held `keys`.
pub(super) fn slots_for(left: u64, slots: u64, keys: u64, env: &Env<'_>) -> u64 {
    let (slots_before, keys_before) = env.stats.slots_and_keys();
    let (slots, keys) = (slots_before + slots, keys_before + keys);
    if slots == 0 {
        return (left / CAUTIOUS_FILL).clamp(1, SLOTS_AT_ONCE);
    }
    (left.saturating_mul(slots) / keys.max(slots)).clamp(1, (slots * GROWTH).min(SLOTS_AT_ONCE))
}
