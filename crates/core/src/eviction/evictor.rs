//! The evictor: a hand that goes over a server's keys, and removes of those that it comes by the ones worth the least.
//!
//! Whoever drives it sends each batch, feeds the replies, and says how many buckets it is to look at next: as many as the
//! bytes that are to be freed ask for. One batch is one round trip: it removes what the batch before has chosen, and looks
//! at what comes next; between the two the server is to be asked for its memory. It may stop anywhere, and two may go over one server.
//!
//! - A field is removed only if it still holds what was read, by compare-and-set, together with its spilled value.
//! - What has expired leaves first, whatever it is worth.
//! - A spilled value counts with what it takes, which is asked for; a set or hash in parts with what its header says of them, and what that
//!   doesn't say is asked for. All of them leave with it, of a large one in several batches.
//! - Keys that the layout keeps stay ([`Evictable`]), and so does all that keyfold keeps for itself.

use std::collections::VecDeque;
use std::mem;

use super::cold_fields::ColdFields;
use super::cold_parts::{ColdParts, Gone, PartsBytes, Why, owner_of};
use super::{Border, Chooser, Worth};
use crate::cache::{BucketHash, Cache, KeyHash, Standing};
use crate::cluster::Redirect;
use crate::exchange::{CompareAndSet, Env, in_calls};
use crate::frame::{Body, Frame};
use crate::layout::{Evict, Evictable, NAMES_PATTERN, NamespaceIndex, Physical};
use crate::notify::{Event, Notices};
use crate::resp::{Reply, write_command};
use crate::sweep::Field;
use crate::walk::{BucketWalk, KeyWalk};

/// Names asked for in one step of SCAN, at least and at most: as many as are looked at in a batch where each is a key.
const NAMES_AT_ONCE: (usize, usize) = (100, 384);

/// So many keys with names of their own are looked at in the time that a bucket takes.
const KEYS_TO_A_BUCKET: usize = 16;

/// Names that are enough to know how many keys one holds.
const NAMES_NOTED: f64 = 4096.0;

/// Removals in one call of the script.
const REMOVALS_AT_ONCE: usize = 64;

/// What an entry of a listpack takes besides its bytes, twice: field and value.
const ENTRY_BYTES: usize = 4;
/// What a spilled value takes besides its bytes and its name's: the entry in the server's table, its head, rounding.
const SPILL_BYTES: usize = 72;

/// Something of which it is to be decided whether it leaves.
#[derive(Debug)]
enum Suspect {
    Bucket(BucketWalk),
    /// A field whose value is spilled: how long that is, is asked.
    Spilled {
        namespace: NamespaceIndex,
        bucket: Vec<u8>,
        field: Vec<u8>,
        stored: Vec<u8>,
        spilled: Vec<u8>,
    },
    /// A field whose collection lies in parts of which its header doesn't say what they take: that is asked.
    Parts {
        namespace: NamespaceIndex,
        bucket: Vec<u8>,
        field: Vec<u8>,
        stored: Vec<u8>,
        owner: Vec<u8>,
    },
    /// A key that has a name of its own; of no namespace where it is plain.
    Key {
        namespace: Option<NamespaceIndex>,
        name: Vec<u8>,
        /// The logical key, where that is another.
        key: Vec<u8>,
    },
}

/// What was chosen to leave, beside fields of buckets that need no more than to be compared and removed.
#[derive(Debug)]
struct Leaving {
    removal: CompareAndSet,
    /// None for a plain key.
    namespace: Option<NamespaceIndex>,
    why: Why,
    bytes: usize,
}

/// What may leave: it is worth less than most, but maybe others are enough.
#[derive(Debug)]
struct Candidate {
    worth: Worth,
    key: KeyHash,
    standing: Standing,
    bytes: usize,
    what: Chosen,
}

/// How something leaves.
#[derive(Debug)]
enum Chosen {
    /// A field of a bucket: compared and removed, beside others.
    Field {
        namespace: NamespaceIndex,
        bucket: Vec<u8>,
        field: Vec<u8>,
        stored: Vec<u8>,
    },
    Parts(ColdParts),
    Other(Leaving),
}

/// What the replies to the batch that was sent last are, in their order.
#[derive(Debug)]
enum Sent {
    /// To a command whose reply doesn't matter.
    Load,
    Removals(Vec<Leaving>),
    Cold(Vec<ColdFields>),
    Parts(ColdParts),
    /// With how many replies it has.
    Suspect(Suspect, usize),
    Names,
}

/// What came of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Keys that were looked at.
    pub looked_at: u64,
    /// Keys that were removed.
    pub evicted: u64,
    /// About what they took, in bytes.
    pub freed_bytes: u64,
}

/// A hand over the keys of one database.
#[derive(Debug)]
pub struct Evictor {
    names: KeyWalk,
    with_plain: bool,
    by_slot: bool,
    suspects: VecDeque<Suspect>,
    leaving: Vec<Leaving>,
    cold: Vec<ColdFields>,
    cold_parts: Vec<ColdParts>,
    chooser: Chooser,
    /// The share of what it comes by that leaves.
    share: f32,
    /// What may leave of the batch that is being looked at.
    candidates: Vec<Candidate>,
    sent: VecDeque<Sent>,
    knows_scripts: bool,
    notices: Option<Notices>,
    draws: u64,
    /// Names that it came by, and keys there. What was long before counts less and less.
    come_by: (f64, f64),
}

impl Evictor {
    /// One that begins anywhere. It removes plain keys too where `with_plain`; `seed` is any number.
    pub fn new(with_plain: bool, seed: u64) -> Self {
        Self {
            names: Self::walk(with_plain),
            with_plain,
            by_slot: false,
            suspects: VecDeque::new(),
            leaving: Vec::new(),
            cold: Vec::new(),
            cold_parts: Vec::new(),
            chooser: Chooser::default(),
            share: 0.0,
            candidates: Vec::new(),
            sent: VecDeque::new(),
            knows_scripts: false,
            notices: None,
            draws: seed | 1,
            come_by: (0.0, 0.0),
        }
    }

    fn walk(with_plain: bool) -> KeyWalk {
        let walk = KeyWalk::new(NAMES_AT_ONCE.0 as u64);
        if with_plain { walk } else { walk.matching(NAMES_PATTERN) }
    }

    /// The same on a node of a cluster. What lies on another is left alone.
    #[must_use]
    pub fn on_node(mut self) -> Self {
        self.by_slot = true;
        self
    }

    /// Has it be published from now on that keys were evicted, as `notices` say.
    pub fn publish(&mut self, notices: Option<Notices>) {
        self.notices = notices;
    }

    /// Writes the first half of a batch: what was chosen is removed. How many replies it has.
    pub fn remove(&mut self, wire: &mut Vec<u8>) -> usize {
        let (leaving, cold) = (mem::take(&mut self.leaving), mem::take(&mut self.cold));
        let cold_parts = mem::take(&mut self.cold_parts);
        if leaving.is_empty() && cold.is_empty() && cold_parts.is_empty() {
            return 0;
        }
        let mut replies = 0;
        if !mem::replace(&mut self.knows_scripts, true) {
            CompareAndSet::send_load_each(wire);
            ColdFields::send_load(wire);
            ColdParts::send_load(wire);
            self.sent.extend([Sent::Load, Sent::Load, Sent::Load]);
            replies += 3;
        }
        for parts in cold_parts {
            parts.send(wire);
            self.sent.push_back(Sent::Parts(parts));
            replies += 1;
        }
        for call in in_calls(leaving, REMOVALS_AT_ONCE, self.by_slot, |one| one.removal.slot()) {
            let removals: Vec<_> = call.iter().map(|one| one.removal.clone()).collect();
            CompareAndSet::send_each(&removals, wire);
            self.sent.push_back(Sent::Removals(call));
            replies += 1;
        }
        for call in in_calls(cold, REMOVALS_AT_ONCE, self.by_slot, |one| Some(one.slot())) {
            ColdFields::send(&call, wire);
            self.sent.push_back(Sent::Cold(call));
            replies += 1;
        }
        replies
    }

    /// Writes the second half of a batch, behind [`Self::remove`]: so many buckets are looked at, or of keys with names of
    /// their own as many as take as long; of those that are come by about `share` leave. How many replies it has.
    pub fn look(&mut self, looks: usize, share: f32, wire: &mut Vec<u8>) -> usize {
        self.share = share;
        let mut replies = 0;
        let mut left = looks.saturating_mul(KEYS_TO_A_BUCKET);
        while left > 0 {
            let Some(suspect) = self.suspects.pop_front() else { break };
            left = left.saturating_sub(if let Suspect::Bucket(_) = suspect { KEYS_TO_A_BUCKET } else { 1 });
            let count = Self::send_suspect(&suspect, wire);
            replies += count;
            self.sent.push_back(Sent::Suspect(suspect, count));
        }
        if left > 0 || self.suspects.len() < looks {
            if self.names.is_over() {
                self.names = Self::walk(self.with_plain);
            }
            let (least, most) = NAMES_AT_ONCE;
            self.names.in_steps_of(looks.saturating_mul(KEYS_TO_A_BUCKET).clamp(least, most) as u64);
            replies += self.names.send(wire).unwrap_or(0);
            self.sent.push_back(Sent::Names);
        }
        replies
    }

    /// How many keys a server has in this database, about, that has so many names there.
    pub fn keys(&self, names: u64) -> u64 {
        let (came_by, keys) = self.come_by;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate"
        )]
        let keys = (names as f64 * keys / came_by.max(1.0)) as u64;
        keys
    }

    fn note_come_by(&mut self, names: u32, keys: u32) {
        let (all, held) = &mut self.come_by;
        if *all > NAMES_NOTED {
            (*all, *held) = (*all / 2.0, *held / 2.0);
        }
        (*all, *held) = (*all + f64::from(names), *held + f64::from(keys));
    }

    fn send_suspect(suspect: &Suspect, wire: &mut Vec<u8>) -> usize {
        match suspect {
            Suspect::Bucket(walk) => walk.send(wire),
            Suspect::Spilled { spilled, .. } => write_command(wire, &[b"STRLEN", spilled]),
            Suspect::Parts { owner, .. } => PartsBytes::ask(owner, wire),
            Suspect::Key { name, .. } => {
                write_command(wire, &[b"MEMORY", b"USAGE", name]);
                write_command(wire, &[b"PTTL", name]);
                return 2;
            }
        }
        1
    }

    /// Takes the replies to the last batch, in RESP2. Of what it looked at it chooses about `wanted_bytes` at most: a few that are large
    /// may be enough.
    ///
    /// # Errors
    /// What the server said instead; the next batch goes on behind what couldn't be done.
    pub fn handle_replies(
        &mut self,
        replies: &[Vec<u8>],
        wanted_bytes: u64,
        cache: &Cache,
        env: &Env<'_>,
    ) -> Result<Batch, String> {
        let (mut batch, mut error, mut replies) = (Batch::default(), None, replies.iter());
        let border = self.chooser.border(self.share);
        cache.set_now(env.now_ms);
        while let Some(sent) = self.sent.pop_front() {
            let count = if let Sent::Suspect(_, count) = &sent { *count } else { 1 };
            let of_it: Vec<_> = replies.by_ref().take(count).collect();
            let Some(raw) = of_it.first() else { break };
            let reply = Reply::parse(raw).map_err(|error| error.to_string())?;
            if let Reply::Error(text) = reply {
                // A name may hold another type by now, and a slot may have moved.
                let is_elsewhere = self.by_slot && Redirect::read(raw).is_some();
                self.knows_scripts &= !text.starts_with(b"NOSCRIPT");
                // While their slot moves some parts are elsewhere, which the server says in many words.
                let is_in_part = self.by_slot && matches!(sent, Sent::Suspect(Suspect::Parts { .. }, _));
                let is_usual =
                    text.starts_with(b"WRONGTYPE") || text.starts_with(b"NOSCRIPT") || is_elsewhere || is_in_part;
                if !is_usual {
                    error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
                }
                if let Sent::Parts(parts) = sent {
                    parts.leave(env);
                }
                continue;
            }
            match sent {
                Sent::Load => {}
                Sent::Cold(fields) => Self::count_cold(&fields, reply, &mut batch, env),
                Sent::Parts(parts) => self.take_parts(parts, reply, &mut batch, env),
                Sent::Removals(leaving) => Self::count(&leaving, reply, &mut batch, cache, env),
                Sent::Names => self.take_names(reply, env)?,
                Sent::Suspect(Suspect::Bucket(walk), _) => {
                    self.take_bucket(walk, reply, border, &mut batch, cache, env);
                }
                Sent::Suspect(Suspect::Key { namespace, name, key }, _) => {
                    let expires = of_it.get(1).is_some_and(|raw| matches!(Reply::parse(raw), Ok(Reply::Integer(0..))));
                    if let Reply::Integer(bytes) = reply {
                        batch.looked_at += 1;
                        self.take_key((namespace, name, key), (bytes, expires), border, cache, env);
                    }
                }
                Sent::Suspect(Suspect::Spilled { namespace, bucket, field, stored, spilled }, _) => {
                    if let Reply::Integer(bytes) = reply {
                        batch.looked_at += 1;
                        let taken = usize::try_from(bytes).unwrap_or(0) + spilled.len() + SPILL_BYTES;
                        let found = Field { namespace, bucket: &bucket, field: &field, stored: &stored };
                        self.take_field(found, Some(taken), border, BucketHash::of(&bucket), cache, env);
                    }
                }
                Sent::Suspect(Suspect::Parts { namespace, bucket, field, stored, .. }, _) => {
                    if let Reply::Integer(bytes) = reply {
                        batch.looked_at += 1;
                        let found = Field { namespace, bucket: &bucket, field: &field, stored: &stored };
                        let more = usize::try_from(bytes).unwrap_or(0);
                        self.take_field(found, Some(more), border, BucketHash::of(&bucket), cache, env);
                    }
                }
            }
        }
        self.take_least(wanted_bytes, cache);
        cache.count_looked_at(batch.looked_at);
        error.map_or(Ok(batch), Err)
    }

    /// Counts what was removed, all but those that had changed.
    fn count(leaving: &[Leaving], reply: Reply<'_>, batch: &mut Batch, cache: &Cache, env: &Env<'_>) {
        let Reply::Array(changed) = reply else { return };
        let mut stays = vec![false; leaving.len()];
        for number in changed {
            if let Reply::Integer(number) = number
                && let Some(stays) = usize::try_from(number - 1).ok().and_then(|at| stays.get_mut(at))
            {
                *stays = true;
            }
        }
        for (one, _) in leaving.iter().zip(stays).filter(|(_, stays)| !stays) {
            batch.evicted += 1;
            batch.freed_bytes += one.bytes as u64;
            match (one.namespace, one.why) {
                (Some(namespace), Why::Cold { is_new }) => {
                    env.stats.namespace(namespace).count_evicted(1, u64::from(is_new));
                }
                (Some(namespace), Why::Expired) => env.stats.namespace(namespace).count_expired(),
                (None, _) => cache.count_plain(1),
            }
        }
    }

    /// Counts the same of fields that were compared and removed.
    fn count_cold(cold: &[ColdFields], reply: Reply<'_>, batch: &mut Batch, env: &Env<'_>) {
        let Reply::Array(gone) = reply else { return };
        for (one, gone) in cold.iter().zip(gone) {
            let Reply::Integer(gone) = gone else { continue };
            let gone = u64::try_from(gone).unwrap_or(0);
            batch.evicted += gone;
            // Nearly always all of them.
            batch.freed_bytes += one.bytes as u64 * gone / one.count().max(1);
            env.stats.namespace(one.namespace).count_evicted(gone, one.new.min(gone));
        }
    }

    /// Counts what has left of a set or hash in parts; more of it leaves by the next batch.
    fn take_parts(&mut self, mut parts: ColdParts, reply: Reply<'_>, batch: &mut Batch, env: &Env<'_>) {
        let Gone::Some { bytes, is_first, is_all } = parts.take(reply) else { return };
        batch.freed_bytes += bytes as u64;
        if is_first {
            batch.evicted += 1;
            let stats = env.stats.namespace(parts.namespace);
            match parts.why {
                Why::Cold { is_new } => stats.count_evicted(1, u64::from(is_new)),
                Why::Expired => stats.count_expired(),
            }
        }
        if !is_all {
            self.cold_parts.push(parts);
        }
    }

    fn take_names(&mut self, reply: Reply<'_>, env: &Env<'_>) -> Result<(), String> {
        for name in self.names.take(reply).map_err(|error| error.to_string())? {
            let suspect = match env.layout.read_physical(name) {
                // What an application's own hashes hold is no frame, and leaves once it is moved.
                Physical::Bucket(_) if env.layout.packing_in(name).is_some() => None,
                Physical::Bucket(namespace) => {
                    may_leave(namespace, env).then(|| Suspect::Bucket(BucketWalk::new(namespace, name)))
                }
                Physical::Zipped { namespace, key } => may_leave(namespace, env).then(|| Suspect::Key {
                    namespace: Some(namespace),
                    name: name.to_vec(),
                    key,
                }),
                Physical::Plain => {
                    self.with_plain.then(|| Suspect::Key { namespace: None, name: name.to_vec(), key: name.to_vec() })
                }
                Physical::Administration | Physical::Spill { .. } | Physical::Part { .. } | Physical::Unknown => None,
            };
            match suspect {
                Some(suspect) => self.suspects.push_back(suspect),
                None => self.note_come_by(1, 0),
            }
        }
        Ok(())
    }

    fn take_bucket(
        &mut self,
        mut walk: BucketWalk,
        reply: Reply<'_>,
        border: Border,
        batch: &mut Batch,
        cache: &Cache,
        env: &Env<'_>,
    ) {
        let Ok(fields) = walk.take(reply) else { return };
        let (namespace, bucket) = (walk.namespace(), walk.name());
        let hash = BucketHash::of(bucket);
        for (field, stored) in fields {
            batch.looked_at += 1;
            let found = Field { namespace, bucket, field, stored };
            self.take_field(found, None, border, hash, cache, env);
        }
        match walk.is_over() {
            true => self.note_come_by(1, 0),
            false => self.suspects.push_front(Suspect::Bucket(walk)),
        }
    }

    /// Looks at a field that takes so many bytes beside its bucket, where that was asked. Where it has to be it is looked at again then.
    fn take_field(
        &mut self,
        found: Field<'_>,
        beside: Option<usize>,
        border: Border,
        hash: BucketHash,
        cache: &Cache,
        env: &Env<'_>,
    ) {
        let Ok(frame) = Frame::decode(found.stored) else { return };
        let Field { namespace, bucket, field, stored } = found;
        let leaves = |removal, why, bytes| Leaving { removal, namespace: Some(namespace), why, bytes };
        let in_bucket = field.len() + stored.len() + ENTRY_BYTES;
        let parts_bytes = match frame.body {
            Body::Parts { header, .. } => PartsBytes::of(header),
            _ => PartsBytes { packed: 0, has_more: false },
        };
        let bytes = in_bucket.saturating_add(parts_bytes.packed).saturating_add(beside.unwrap_or(0));
        if frame.expired(env.now_ms) {
            if let Body::Parts { nonce, .. } = frame.body {
                let why = (Why::Expired, frame.expires_at_ms);
                self.cold_parts.extend(ColdParts::of(&found, nonce, why, bytes, self.notices, env));
            } else {
                let removal = found.removal(&frame, Event::Expired, self.notices, env);
                self.leaving.push(leaves(removal, Why::Expired, bytes));
            }
            return;
        }
        let owned = || [bucket, field, stored].map(<[u8]>::to_vec);
        match frame.body {
            Body::Spill { .. } if beside.is_none() => {
                self.suspects.extend(found.spilled(&frame, env).map(|spilled| {
                    let [bucket, field, stored] = owned();
                    Suspect::Spilled { namespace, bucket, field, stored, spilled }
                }));
                return;
            }
            Body::Parts { nonce, .. } if beside.is_none() && parts_bytes.has_more => {
                self.suspects.extend(owner_of(bucket, nonce).map(|owner| {
                    let [bucket, field, stored] = owned();
                    Suspect::Parts { namespace, bucket, field, stored, owner }
                }));
                return;
            }
            _ => {}
        }
        self.note_come_by(0, 1);
        let rule = env.layout.namespace(namespace).evictable;
        let key = hash.field(field);
        let Some((worth, standing)) = self.choose(key, bytes, frame.expires_at_ms.is_some(), rule, border, cache)
        else {
            return;
        };
        let is_new = standing == Standing::New;
        let what = match frame.body {
            Body::Parts { nonce, .. } => {
                let why = (Why::Cold { is_new }, None);
                let Some(parts) = ColdParts::of(&found, nonce, why, bytes, self.notices, env) else { return };
                Chosen::Parts(parts)
            }
            _ if self.notices.is_some() || matches!(frame.body, Body::Spill { .. }) => {
                let removal = found.removal(&frame, Event::Evicted, self.notices, env);
                Chosen::Other(leaves(removal, Why::Cold { is_new }, bytes))
            }
            _ => Chosen::Field { namespace, bucket: bucket.to_vec(), field: field.to_vec(), stored: stored.to_vec() },
        };
        self.candidates.push(Candidate { worth, key, standing, bytes, what });
    }

    /// Has those leave that are worth the least, until they and what leaves already take about so many bytes.
    fn take_least(&mut self, wanted_bytes: u64, cache: &Cache) {
        let mut candidates = mem::take(&mut self.candidates);
        candidates.sort_by_key(|candidate| candidate.worth);
        let leaving = self.leaving.iter().map(|leaving| leaving.bytes);
        let leaving = leaving.chain(self.cold_parts.iter().map(|parts| parts.bytes));
        let mut left = leaving.fold(wanted_bytes, |left, bytes| left.saturating_sub(bytes as u64));
        for Candidate { key, standing, bytes, what, .. } in candidates {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(bytes as u64);
            cache.popularity().leave(key, standing);
            match what {
                Chosen::Parts(parts) => self.cold_parts.push(parts),
                Chosen::Other(leaving) => self.leaving.push(leaving),
                Chosen::Field { namespace, bucket, field, stored } => {
                    let (found, is_new) = (
                        Field { namespace, bucket: &bucket, field: &field, stored: &stored },
                        standing == Standing::New,
                    );
                    match self.cold.iter_mut().find(|cold| cold.bucket == bucket) {
                        Some(cold) => cold.add(&found, bytes, is_new),
                        None => self.cold.push(ColdFields::of(&found, bytes, is_new)),
                    }
                }
            }
        }
    }

    fn take_key(
        &mut self,
        (namespace, name, key): (Option<NamespaceIndex>, Vec<u8>, Vec<u8>),
        (bytes, expires): (i64, bool),
        border: Border,
        cache: &Cache,
        env: &Env<'_>,
    ) {
        self.note_come_by(1, 1);
        let bytes = usize::try_from(bytes).unwrap_or(0);
        // One under its own name may be a namespace's all the same, as it isn't moved yet or too long for a field.
        let ruling = namespace.or_else(|| env.layout.namespace_of(&key));
        let rule = ruling.map_or_else(Evictable::default, |namespace| env.layout.namespace(namespace).evictable);
        let hash = KeyHash::of(&name);
        if let Some((worth, standing)) = self.choose(hash, bytes, expires, rule, border, cache) {
            let mut removal = CompareAndSet::default();
            if rule.which == Evict::Expiring {
                removal.check_expires(&name);
            }
            removal.write(&[b"UNLINK", &name]);
            if let (Some(notices), Some(_)) = (self.notices, namespace) {
                // Of a plain key the server itself says that it is removed.
                removal.publish(notices, &key, Event::Evicted);
            }
            let why = Why::Cold { is_new: standing == Standing::New };
            let what = Chosen::Other(Leaving { removal, namespace, why, bytes });
            self.candidates.push(Candidate { worth, key: hash, standing, bytes, what });
        }
    }

    /// Whether a key may leave: what it is worth, and how it stands.
    fn choose(
        &mut self,
        key: KeyHash,
        bytes: usize,
        expires: bool,
        rule: Evictable,
        border: Border,
        cache: &Cache,
    ) -> Option<(Worth, Standing)> {
        let stays = match rule.which {
            Evict::Any => false,
            Evict::Expiring => !expires,
            Evict::Never => true,
        };
        if stays {
            return None;
        }
        let standing = cache.popularity().standing(key);
        let worth = Worth::of(standing, bytes, rule.weight());
        self.chooser.show(worth);
        let draw = self.draw();
        border.leaves(worth, draw).then_some((worth, standing))
    }

    /// A number from 0 to below 1 (xorshift, Marsaglia 2003).
    fn draw(&mut self) -> f32 {
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        let bits = u16::try_from(self.draws >> 48).unwrap_or(0);
        f32::from(bits) / 65_536.0
    }
}

/// Whether any key of the namespace may leave.
fn may_leave(namespace: NamespaceIndex, env: &Env<'_>) -> bool {
    env.layout.namespace(namespace).evictable.which != Evict::Never
}
