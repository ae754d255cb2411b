//! The sweep: removes what has expired from buckets, and retires spilled values that nothing points to.
//!
//! It walks one database by SCAN, a batch at a time, or looks through buckets that it is told of; whoever drives it
//! sends each batch, feeds the replies and rests in between. Nothing depends on it but memory: expired values read
//! as absent all the same. It may stop anywhere, run twice, or run on two machines at once.
//!
//! - An expired field is removed only if it still holds the expired value, by compare-and-set.
//! - A spilled value is written together with the field that points to it, under a nonce that is never used
//!   again: once nothing points to it, nothing ever will.
//! - A bucket is read in pieces, so that one which somebody made as large as he likes holds the server up for no
//!   longer than any other.

mod count;
mod in_parts;
mod orphan_parts;
mod removal;

use crate::cluster::Redirect;
use crate::exchange::{CompareAndSet, Env, RETIRE_MS, in_calls};
use crate::frame::Frame;
use crate::layout::{Layout, NAMES_PATTERN, NamespaceIndex, Physical};
use crate::notify::{Event, Notices};
use crate::placement::name::{Head, PartName};
use crate::record::NOBODY;
use crate::resp::{Reply, write_command};
use crate::stats::NotedParts;
pub use crate::stats::Swept;
use crate::walk::{BucketWalk, KeyWalk};
pub use count::ContentsCount;
use in_parts::Look;
use orphan_parts::{OrphanParts, Removals};
pub(crate) use removal::Field;

/// Physical names asked for in one step of SCAN.
const NAMES_AT_ONCE: u64 = 200;

/// Buckets and spilled values looked at in one batch.
const KEYS_AT_ONCE: usize = 64;

/// Removals in one call of the script, each by itself.
const REMOVALS_AT_ONCE: usize = 64;

/// A bucket with more fields than this is named to the operator.
const LARGE_BUCKET_FIELDS: u64 = 10_000;

/// A physical key to look at.
#[derive(Clone, Debug)]
enum Suspect {
    Bucket(BucketWalk),
    /// A bucket that HSCAN didn't finish in one step: how many fields it has is asked.
    Size {
        namespace: NamespaceIndex,
        name: Vec<u8>,
    },
    Spill {
        nonce: u64,
        name: Vec<u8>,
        physical: Vec<u8>,
        field: Vec<u8>,
    },
    /// What belongs to a collection in parts, the names of it that were come by: whose it is is asked first.
    Parts(OrphanParts),
    /// The same, whose key is known.
    OwnedParts {
        parts: OrphanParts,
        physical: Vec<u8>,
        field: Vec<u8>,
    },
    /// The same, to which nothing points: which parts there are is asked.
    OrphanParts(OrphanParts),
    /// What belongs to a collection in parts, read to know what these take.
    Look(Look),
}

/// What the replies to the batch that was sent last are.
#[derive(Debug)]
enum Sent {
    Names,
    Suspects(Vec<Suspect>),
    /// Removals of what has expired, behind what loads their script.
    Expired(Vec<Vec<CompareAndSet>>),
    Removals,
}

/// A walk over one database, or over some buckets of it.
#[derive(Debug)]
pub struct Sweep {
    /// None where only some buckets are looked through.
    names: Option<KeyWalk>,
    suspects: Vec<Suspect>,
    /// What removes expired fields, each with its checks.
    expired: Vec<CompareAndSet>,
    /// What says that parts are nobody's, and retires orphans: each with its checks, as by now it may be another server that is asked.
    removals: Vec<CompareAndSet>,
    /// What retires what says which orphans there are, once all of these are carried out.
    last: Vec<CompareAndSet>,
    /// No call of the script reaches two slots.
    by_slot: bool,
    sent: Sent,
    /// What is published of what it removes.
    notices: Option<Notices>,
    /// Counts what it comes by, where somebody wants to know.
    count: Option<ContentsCount>,
    /// By the last batch.
    swept: Swept,
}

impl Default for Sweep {
    fn default() -> Self {
        Self::over(Some(KeyWalk::new(NAMES_AT_ONCE).matching(NAMES_PATTERN)))
    }
}

impl Sweep {
    fn over(names: Option<KeyWalk>) -> Self {
        Self {
            names,
            suspects: Vec::new(),
            expired: Vec::new(),
            removals: Vec::new(),
            last: Vec::new(),
            by_slot: false,
            sent: Sent::Removals,
            notices: None,
            count: None,
            swept: Swept::default(),
        }
    }

    /// The same on a node of a cluster. What lies on another is left alone.
    #[must_use]
    pub fn on_node(mut self) -> Self {
        self.by_slot = true;
        self
    }

    /// A sweep that looks through those of these names only that are buckets by this layout.
    pub fn of_buckets(names: &[Vec<u8>], layout: &Layout) -> Self {
        let mut sweep = Self::over(None);
        for name in names {
            if let Physical::Bucket(namespace) = layout.read_physical(name) {
                sweep.suspects.push(Suspect::Bucket(BucketWalk::new(namespace, name)));
            }
        }
        sweep
    }

    /// A sweep that looks whether these names, each of which says whose parts are, are still anybody's.
    pub fn of_parts(noted: &[NotedParts]) -> Self {
        let mut sweep = Self::over(None);
        for NotedParts { owner, looks } in noted {
            if let Some((nonce, _)) = Head::decode(owner).and_then(|head| PartName::decode(head.rest))
                && let Some(origin) = Layout::origin_of(owner)
            {
                sweep.suspects.push(Suspect::Parts(OrphanParts::new(nonce, origin, owner).noted(*looks)));
            }
        }
        sweep
    }

    /// A sweep that looks whether the parts that these names are of are still anybody's.
    pub fn of_part_names<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let mut sweep = Self::over(None);
        for name in names {
            if let Some((nonce, _)) = Head::decode(name).and_then(|head| PartName::decode(head.rest)) {
                sweep.suspect_part(nonce, name);
            }
        }
        sweep
    }

    /// Has it count what it comes by, beside what was come by before.
    #[must_use]
    pub fn counting(mut self, count: Option<ContentsCount>) -> Self {
        self.count = count;
        self
    }

    /// What it has come by, where it counts that.
    pub fn into_count(self) -> Option<ContentsCount> {
        self.count
    }

    /// Has it be published from now on that keys have expired, as `notices` say.
    pub fn publish(&mut self, notices: Option<Notices>) {
        self.notices = notices;
    }

    /// Writes the next batch of commands; how many replies they have, none at the end of the walk.
    pub fn next(&mut self, wire: &mut Vec<u8>) -> Option<usize> {
        if !self.expired.is_empty() {
            let expired = std::mem::take(&mut self.expired);
            let calls = self.send_each(expired, wire);
            let replies = calls.len() + 1;
            self.sent = Sent::Expired(calls);
            return Some(replies);
        }
        if !self.removals.is_empty() || !self.last.is_empty() {
            let removals = if self.removals.is_empty() { &mut self.last } else { &mut self.removals };
            let removals = std::mem::take(removals);
            self.sent = Sent::Removals;
            return Some(self.send_each(removals, wire).len() + 1);
        }
        if !self.suspects.is_empty() {
            let rest = self.suspects.len().saturating_sub(KEYS_AT_ONCE);
            let suspects = self.suspects.split_off(rest);
            for suspect in &suspects {
                match suspect {
                    Suspect::Bucket(walk) => walk.send(wire),
                    Suspect::Size { name, .. } => write_command(wire, &[b"HLEN", name]),
                    Suspect::Spill { physical, field, .. } | Suspect::OwnedParts { physical, field, .. } => {
                        write_command(wire, &[b"HGET", physical, field]);
                    }
                    Suspect::Parts(parts) => parts.ask_owner(wire),
                    Suspect::OrphanParts(parts) => parts.ask_directories(wire),
                    Suspect::Look(look) => look.send(wire),
                }
            }
            let replies = suspects.len();
            self.sent = Sent::Suspects(suspects);
            return Some(replies);
        }
        let replies = self.names.as_ref()?.send(wire)?;
        self.sent = Sent::Names;
        Some(replies)
    }

    /// Writes what loads the script, and its calls.
    fn send_each(&self, all: Vec<CompareAndSet>, wire: &mut Vec<u8>) -> Vec<Vec<CompareAndSet>> {
        CompareAndSet::send_load_each(wire);
        let calls = in_calls(all, REMOVALS_AT_ONCE, self.by_slot, CompareAndSet::slot);
        calls.iter().for_each(|groups| CompareAndSet::send_each(groups, wire));
        calls
    }

    /// Takes the replies to the last batch, in RESP2; what was looked at and found by it.
    ///
    /// # Errors
    /// What the server said instead, where it couldn't be asked; the walk may be begun anew.
    pub fn handle_replies(&mut self, replies: &[Vec<u8>], env: &Env<'_>) -> Result<Swept, String> {
        let sent = std::mem::replace(&mut self.sent, Sent::Removals);
        for (index, raw) in replies.iter().enumerate() {
            let reply = Reply::parse(raw).map_err(|error| error.to_string())?;
            match (&sent, reply) {
                // What was changed meanwhile stays, and is looked at again the next time round; what lies elsewhere too.
                (Sent::Removals, Reply::Error(_)) => self.last.clear(),
                (Sent::Removals, _) | (Sent::Expired(_), Reply::Error(_)) => {}
                (Sent::Expired(calls), left_alone) => {
                    let call = index.checked_sub(1).and_then(|call| calls.get(call));
                    call.iter().for_each(|call| look_again(call, left_alone, env));
                }
                // A bucket's name may hold another type, in this database or since it was noted.
                (Sent::Suspects(suspects), Reply::Error(error)) if error.starts_with(b"WRONGTYPE") => {
                    if let Suspect::Look(look) = &suspects[index] {
                        self.suspects.extend(look.otherwise().map(Suspect::Look));
                    }
                }
                // Its slot has moved, or is moving: whoever walks there finds it.
                (Sent::Suspects(_), Reply::Error(_)) if self.by_slot && Redirect::read(raw).is_some() => {}
                (_, Reply::Error(error)) => return Err(String::from_utf8_lossy(error).into_owned()),
                (Sent::Names, reply) => self.take_names(reply, env)?,
                (Sent::Suspects(suspects), reply) => self.take_suspect(&suspects[index], reply, env),
            }
        }
        Ok(std::mem::take(&mut self.swept))
    }

    fn take_names(&mut self, reply: Reply<'_>, env: &Env<'_>) -> Result<(), String> {
        let Some(names) = &mut self.names else { return Ok(()) };
        for name in names.take(reply).map_err(|error| error.to_string())? {
            match env.layout.read_physical(name) {
                Physical::Bucket(namespace) => self.suspects.push(Suspect::Bucket(BucketWalk::new(namespace, name))),
                Physical::Spill { namespace, nonce, key } => {
                    env.stats.namespace(namespace).note_spilled();
                    // A spilled value belongs where its key lies; one whose key lies elsewhere isn't ours to judge.
                    if let Some(place) = env.layout.place_beside(name, key) {
                        let (physical, field) = (place.physical.to_vec(), place.field.to_vec());
                        self.suspects.push(Suspect::Spill { nonce, name: name.to_vec(), physical, field });
                    }
                }
                Physical::Part { namespace, nonce, name: part } => {
                    self.suspect_part(nonce, name);
                    let count = self.count.as_mut();
                    let look = count.and_then(|count| count.meet_part(namespace, part, name, env.layout));
                    self.suspects.extend(look.map(Suspect::Look));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes a name that belongs to a collection in parts, beside others of the same.
    fn suspect_part(&mut self, nonce: u64, name: &[u8]) {
        let Some(origin) = Layout::origin_of(name) else { return };
        let same = self.suspects.iter_mut().find_map(|suspect| match suspect {
            Suspect::Parts(parts) => parts.is(nonce, origin).then_some(parts),
            _ => None,
        });
        match same {
            Some(parts) => parts.add(name),
            None => self.suspects.push(Suspect::Parts(OrphanParts::new(nonce, origin, name))),
        }
    }

    fn take_suspect(&mut self, suspect: &Suspect, reply: Reply<'_>, env: &Env<'_>) {
        match (suspect, reply) {
            (Suspect::Bucket(walk), reply) => self.take_piece(walk.clone(), reply, env),
            (Suspect::Size { namespace, name }, Reply::Integer(fields)) => {
                let fields = u64::try_from(fields).unwrap_or(0);
                env.stats.sweep().large_buckets.note(*namespace, name, fields, LARGE_BUCKET_FIELDS);
            }
            (Suspect::Size { .. }, _) => {}
            (Suspect::Spill { nonce, name, physical, field }, reply) => {
                self.swept.fields += 1;
                if !points_to(reply.bytes(), *nonce) {
                    self.swept.orphans += 1;
                    self.removals.push(retirement(name, (b"HGET", &[physical, field]), reply.bytes()));
                }
            }
            (Suspect::Look(look), reply) => {
                self.swept.fields += self.count.as_mut().map_or(1, |count| count.take_part(look, reply));
            }
            (Suspect::Parts(parts), Reply::Bulk(NOBODY)) => self.suspects.push(Suspect::OrphanParts(parts.clone())),
            // Without that key they can't be judged.
            (Suspect::Parts(parts), reply) => {
                let mut parts = parts.clone();
                if let Some(place) = reply.bytes().and_then(|key| parts.take_owner(key, env.layout)) {
                    let (physical, field) = (place.physical.to_vec(), place.field.to_vec());
                    self.suspects.push(Suspect::OwnedParts { parts, physical, field });
                }
            }
            (Suspect::OwnedParts { parts, physical, field }, reply) => {
                self.swept.fields += 1;
                let seen = reply.bytes();
                if !points_to(seen, parts.nonce()) {
                    self.removals.push(parts.disown(physical, field, seen));
                    self.suspects.push(Suspect::OrphanParts(parts.clone()));
                } else if let Some(looks) = parts.looks() {
                    env.stats.sweep().abandoned.look_again(parts.owner_name(), looks, env.now_ms);
                }
            }
            (Suspect::OrphanParts(parts), reply) => {
                self.swept.orphans += 1;
                let Removals { parts, last } = parts.removals(reply);
                self.removals.extend(parts);
                self.last.extend(last);
            }
        }
    }

    fn take_piece(&mut self, mut walk: BucketWalk, reply: Reply<'_>, env: &Env<'_>) {
        let is_first = walk.is_at_start();
        let Ok(fields) = walk.take(reply) else { return };
        let (namespace, name) = (walk.namespace(), walk.name());
        let (mut next_expiry, mut swept) = (None, Swept::default());
        let mut piece = ContentsCount::begin(namespace);
        for (field, stored) in fields {
            swept.fields += 1;
            let frame = Frame::decode(stored).ok();
            let ends_at_ms = frame.as_ref().and_then(|frame| env.layout.ends_at_ms(namespace, name, field, frame));
            if let Some(frame) = &frame
                && ends_at_ms.is_some_and(|at| at < env.now_ms)
            {
                swept.expired += 1;
                let found = Field { namespace, bucket: name, field, stored };
                self.expired.push(found.removal(frame, Event::Expired, self.notices, env));
                continue;
            }
            next_expiry = next_expiry.into_iter().chain(ends_at_ms).min();
            if let Some(count) = &mut self.count {
                count.add(&mut piece, name, field, stored, env.layout);
            }
        }
        self.count.iter_mut().for_each(|count| count.end(&piece, name, walk.is_over()));
        env.stats.namespace(namespace).count_swept(swept);
        self.swept += swept;
        if let Some(at) = next_expiry {
            env.stats.sweep().expiring.note(name, at, env.now_ms);
        }
        match (is_first, walk.is_over()) {
            (true, true) => env.stats.sweep().large_buckets.forget(name),
            (false, true) => {}
            // A bucket that wasn't read whole in one step is read on, and its size is asked for once.
            (is_first, false) => {
                let size = is_first.then(|| Suspect::Size { namespace, name: name.to_vec() });
                self.suspects.extend(size.into_iter().chain([Suspect::Bucket(walk)]));
            }
        }
    }
}

/// Has buckets be looked through once more of which the server has left a field alone: by its clock it has not expired yet, or it was
/// written anew. It answers with their numbers in the call.
fn look_again(call: &[CompareAndSet], left_alone: Reply<'_>, env: &Env<'_>) {
    let Reply::Array(numbers) = left_alone else { return };
    for number in numbers {
        let Reply::Integer(number) = number else { continue };
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        if let Some(bucket) = index.and_then(|index| call.get(index)?.first_key()) {
            env.stats.sweep().expiring.note(bucket, env.now_ms, env.now_ms);
        }
    }
}

/// What has a key go that nothing points to: in some seconds, for readers that were pointed to it just before. It does so if this is still
/// what a read answers by which nothing does. A key that goes already keeps its time: walks may follow each other faster than that.
fn retirement(name: &[u8], (read, of): (&[u8], &[&[u8]]), seen: Option<&[u8]>) -> CompareAndSet {
    let mut retirement = CompareAndSet::default();
    retirement.check(&[&[read], of].concat(), seen);
    retirement.check(&[b"PTTL", name], Some(b"-1"));
    retirement.write(&[b"PEXPIRE", name, RETIRE_MS]);
    retirement
}

/// Whether what was said of a field points to what has this nonce.
fn points_to(stored: Option<&[u8]>, nonce: u64) -> bool {
    let frame = stored.and_then(|stored| Frame::decode(stored).ok());
    frame.is_some_and(|frame| frame.body.points_to(nonce))
}

#[cfg(test)]
mod tests;
