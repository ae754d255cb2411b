//! The mover: brings every key of the namespaces that are moving from its old place to its new one, or its value
//! from an old codec to the one that is written now.
//!
//! It walks one database by SCAN, a batch at a time; whoever drives it sends each batch, feeds the replies and
//! rests in between. Each key is moved by one atomic step of the server: *if the old place still holds this and
//! the new one nothing, write the new and take the old away*. Clients write in the same way, so that a key is in
//! exactly one of its places at any moment, whoever comes first. It may stop anywhere, run twice, or run on two
//! machines at once.
//!
//! On a node of a cluster no call reaches two slots, and a key whose slot is on its way, or at another node, is left for
//! another walk and counted ([`Moved::led_elsewhere`]): as long as there are such, nothing is known of old places.
//!
//! ```text
//! SCAN ─▶ names ─┬─▶ keys of their own ──────┐
//!                └─▶ buckets ─▶ HSCAN ─▶ fields ─┬─▶ the server moves them by itself ─▶ moved
//!                                                │                │ what isn't ordinary
//!                                                └─▶ old places read ──▶ compare and set ─▶ moved
//!                                                                              ▲     │ changed meanwhile
//!                                                         both places read ────┴─◀───┘
//!                                                                │ a set or hash of many members
//!                                                                └─▶ moved in steps
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | `direct` | keys that one script reads in their old places and writes in their new ones |
//! | `large` | sets and hashes of many members, which are moved in steps |

mod direct;
mod large;

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use crate::cluster::Redirect;
use crate::collection::CollectionKind;
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::{CompareAndSet, Env, Refusal, in_calls, store};
use crate::layout::{Located, NAMES_PATTERN, NamespaceIndex, Physical};
use crate::placement::name::PartName;
use crate::resp::Reply;
use crate::slot::Slot;
use crate::string::{Collected, Entry, Held};
use crate::walk::{BucketWalk, KeyWalk};
use direct::{Call, Direct, Outcome};
use large::{LargeOnes, Step};

pub use large::{MOVED_AT_ONCE, moved_at_once};

/// Keys read in one batch, at the most.
const KEYS_AT_ONCE: usize = 512;

/// Slots of the server's table that one SCAN looks at where others are waiting.
const SLOTS_A_SHORT_SCAN: usize = 128;

/// Bytes that the replies to one batch may come to, by those to the batch before.
const BYTES_AT_ONCE: usize = 4 << 20;

/// Buckets opened in one batch, at the most.
const BUCKETS_AT_ONCE: usize = 8;

/// Keys moved by one call of the script: a server answers nobody else while it runs.
const KEYS_A_CALL: usize = 32;

/// What the names of remainders match, of collections that were being moved in steps.
const REMAINDERS_PATTERN: &[u8] = b"~*|*r";

/// Keys that stay are listed up to so many; the rest is counted.
const LISTED: usize = 1000;

/// What the server's answer was no reply to.
const UNEXPECTED: &str = "the server sent a reply of another kind than the command has";

/// What a walk has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Values looked at, where they are stored again.
    pub seen: u64,
    /// Keys found in their old places, or values stored by another codec.
    pub found: u64,
    /// Keys brought to their new ones, or values stored again.
    pub moved: u64,
    /// Expired values taken away.
    pub expired: u64,
    /// Keys that stay in their old places, with the reason: the first thousand.
    pub left: Vec<(Vec<u8>, Left)>,
    /// How many stay.
    pub left_count: u64,
    /// The namespaces that these are of.
    pub left_in: BTreeSet<NamespaceIndex>,
    /// How many of these are fields of handmade hashes that no key has.
    pub without_key: u64,
    /// Members of sets and hashes that were moved in steps, as far as they went.
    pub members: u64,
    /// Keys and buckets that another node has, or that are on their way to one: they are not looked at.
    pub led_elsewhere: u64,
}

/// Why a key stays in its old place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is no string, but of this type. It stays reachable as long as the namespace is moving.
    OtherType(String),
    /// The new place holds a value too: somebody wrote past keyfold. The new one counts.
    InBoth,
    /// What is stored can't be read.
    Damaged(String),
    /// It has the name of a handmade hash, and is none.
    NotAHash,
    /// A field of a handmade hash that no key of the namespace has. The key listed is the hash.
    NoKey {
        /// The field.
        field: Vec<u8>,
    },
}

/// What the replies to the batch that was sent last are.
#[derive(Debug)]
enum Sent {
    Nothing,
    Names,
    Buckets(Vec<BucketWalk>),
    Keys(Box<Load>),
    /// A step of a set or hash of many members.
    Large,
    /// Whose a remainder is.
    Owner,
    /// Keys that the server moves by itself, oldest first.
    Direct(VecDeque<Call>),
    /// Calls of the script, each with the keys it moves; before them perhaps the reply that loads the script.
    Move {
        calls: Vec<Vec<Planned>>,
        loads: bool,
    },
}

/// A key that is ready to be moved.
#[derive(Debug)]
struct Planned {
    key: Vec<u8>,
    /// It has expired, and goes.
    is_expired: bool,
}

/// What a walk is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    /// Keys are brought from their old places to their new ones.
    Move,
    /// Values of these namespaces are stored again where another codec wrote them, or none, or they are spilled.
    Recode(Vec<NamespaceIndex>),
}

/// A walk over one database.
#[derive(Debug)]
pub struct Mover {
    task: Task,
    names: KeyWalk,
    /// Behind it: what is left of an earlier move, where the walk before didn't come by its names.
    remainders: Option<KeyWalk>,
    buckets: Vec<BucketWalk>,
    /// How many of them the next batch has.
    buckets_at_once: usize,
    keys: Vec<Vec<u8>>,
    /// Keys that the server may move by itself.
    direct: Direct,
    /// Sets and hashes of many members.
    large: LargeOnes,
    /// Keys that are looked at once more, in both places.
    again: Vec<Vec<u8>>,
    /// The same, which are moved as a whole whatever their size.
    whole: Vec<Vec<u8>>,
    /// What is being read is such a key.
    is_whole: bool,
    /// How many keys the next batch has.
    keys_at_once: usize,
    /// Keys that are ready to be moved.
    groups: Vec<(Planned, CompareAndSet)>,
    sent: Sent,
    /// Whether the server was made to know the script.
    is_loaded: bool,
    /// No call of the script reaches two slots.
    by_slot: bool,
    /// Commands that the load goes on with.
    more: Option<(Vec<u8>, u32)>,
    moved: Moved,
}

impl Mover {
    /// A walk from the start. `pattern` is a glob that all physical names concerned match.
    pub fn new(pattern: &[u8]) -> Self {
        Self::with_task(Task::Move, pattern)
    }

    /// A walk that stores the values of these namespaces again, which are not moving: by the codec that is written
    /// now. Once it has been through, and left none, no value names another slot.
    pub fn recode(namespaces: Vec<NamespaceIndex>) -> Self {
        Self::with_task(Task::Recode(namespaces), NAMES_PATTERN)
    }

    fn with_task(task: Task, pattern: &[u8]) -> Self {
        let walk = || KeyWalk::new(KEYS_AT_ONCE as u64);
        let sees_all = task != Task::Move || pattern == b"*" || pattern == NAMES_PATTERN;
        Self {
            task,
            names: walk().matching(pattern),
            remainders: (!sees_all).then(|| walk().matching(REMAINDERS_PATTERN)),
            buckets: Vec::new(),
            buckets_at_once: 1,
            keys: Vec::new(),
            direct: Direct::new(),
            large: LargeOnes::new(),
            again: Vec::new(),
            whole: Vec::new(),
            is_whole: false,
            keys_at_once: KEYS_AT_ONCE / 8,
            groups: Vec::new(),
            sent: Sent::Nothing,
            is_loaded: false,
            by_slot: false,
            more: None,
            moved: Moved::default(),
        }
    }

    /// The same on a node of a cluster. What lies on another is left alone.
    #[must_use]
    pub fn on_node(mut self) -> Self {
        self.by_slot = true;
        self.direct.by_slot();
        self
    }

    /// Has the next batches be short ones, where others use the server too.
    pub fn keep_short(&mut self, short: bool) {
        self.direct.keep_short(short);
        self.large.keep_short(short);
        self.names.in_steps_of(if short { SLOTS_A_SHORT_SCAN } else { KEYS_AT_ONCE } as u64);
    }

    /// What it has done so far.
    pub fn moved(&self) -> &Moved {
        &self.moved
    }

    /// Writes the next batch of commands; how many replies they have, none at the end of the walk.
    pub fn next(&mut self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> Option<usize> {
        if let Some((commands, replies)) = self.more.take() {
            wire.extend(commands);
            return Some(replies as usize);
        }
        if !self.groups.is_empty() {
            return Some(self.send_moves(wire));
        }
        if self.large.send(env, wire) {
            self.sent = Sent::Large;
            return Some(1);
        }
        if self.large.ask_owner(wire) {
            self.sent = Sent::Owner;
            return Some(1);
        }
        if self.direct.is_full()
            && let Some(replies) = self.send_direct(env, wire)
        {
            return Some(replies);
        }
        if !self.keys.is_empty() {
            let keys = self.keys.split_off(self.keys.len().saturating_sub(self.keys_at_once));
            let names = keys.iter().map(Vec::as_slice);
            let load = match self.task {
                Task::Move => {
                    let most = env.layout.moving().map(moved_at_once).max().unwrap_or(MOVED_AT_ONCE);
                    Load::of_old_places(env, names).sparing_members(most)
                }
                // No codec writes what lies in parts.
                Task::Recode(_) => Load::new(env, names).apart().sparing_members(0),
            };
            return Some(self.send_load(load, wire));
        }
        if !self.again.is_empty() {
            let keys = self.again.split_off(self.again.len().saturating_sub(self.keys_at_once));
            let load = Load::new(env, keys.iter().map(Vec::as_slice)).apart().sparing_members(MOVED_AT_ONCE);
            return Some(self.send_load(load, wire));
        }
        if let Some(key) = self.whole.pop() {
            let replies = self.send_load(Load::new(env, [key.as_slice()].into_iter()).apart(), wire);
            self.is_whole = true;
            return Some(replies);
        }
        if !self.buckets.is_empty() {
            let buckets = self.buckets.split_off(self.buckets.len().saturating_sub(self.buckets_at_once));
            buckets.iter().for_each(|bucket| bucket.send(wire));
            let replies = buckets.len();
            self.sent = Sent::Buckets(buckets);
            return Some(replies);
        }
        if self.names.is_over()
            && let Some(remainders) = self.remainders.take()
            && env.layout.moving().any(|namespace| namespace.collection().is_some())
        {
            self.names = remainders;
        }
        let Some(replies) = self.names.send(wire) else { return self.send_direct(env, wire) };
        self.sent = Sent::Names;
        Some(replies)
    }

    /// The next call by which the server moves keys itself.
    fn send_direct(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) -> Option<usize> {
        self.sent = Sent::Direct(VecDeque::from([self.direct.send(env, wire)?]));
        Some(1)
    }

    /// Writes one more batch behind those under way, where it doesn't depend on what comes of them: it has one reply.
    /// [`Self::handle_replies`] takes the replies to one batch after the other.
    pub fn next_ahead(&mut self, env: &Env<'_>, wire: &mut Vec<u8>) -> bool {
        let Sent::Direct(calls) = &mut self.sent else { return false };
        let call = self.direct.send(env, wire);
        let is_sent = call.is_some();
        calls.extend(call);
        is_sent
    }

    /// What is read need not be of one moment: the script checks all of it once more.
    fn send_load(&mut self, mut load: Load, wire: &mut Vec<u8>) -> usize {
        let replies = load.send(wire);
        self.sent = Sent::Keys(Box::new(load));
        self.is_whole = false;
        replies as usize
    }

    /// One call at a time: a server reads ahead, and answers several that wait for it before anybody else. On a node of a
    /// cluster there are as many calls as slots, and together they have no more keys.
    fn send_moves(&mut self, wire: &mut Vec<u8>) -> usize {
        let loads = !mem::replace(&mut self.is_loaded, true);
        if loads {
            CompareAndSet::send_load_each(wire);
        }
        if self.by_slot {
            // What is sent now is of as few slots as can be.
            self.groups.sort_by_key(|(_, group)| group.slot());
        }
        let rest = self.groups.split_off(self.groups.len().min(KEYS_A_CALL));
        let groups = mem::replace(&mut self.groups, rest);
        let mut calls = Vec::new();
        for call in in_calls(groups, KEYS_A_CALL, self.by_slot, |(_, group)| group.slot()) {
            let (keys, moves): (Vec<_>, Vec<_>) = call.into_iter().unzip();
            CompareAndSet::send_each(&moves, wire);
            calls.push(keys);
        }
        let replies = calls.len() + usize::from(loads);
        self.sent = Sent::Move { calls, loads };
        replies
    }

    /// Takes the replies to the last batch, in RESP2.
    ///
    /// # Errors
    /// What the server said instead, such as that it is out of memory. What had been read is lost to this walk;
    /// nothing is lost to the server, and another walk finds it.
    pub fn handle_replies(&mut self, replies: &[Vec<u8>], env: &mut Env<'_>) -> Result<(), String> {
        match mem::replace(&mut self.sent, Sent::Nothing) {
            Sent::Nothing => Ok(()),
            Sent::Names => replies.iter().try_for_each(|raw| self.take_names(raw, env)),
            Sent::Buckets(buckets) => {
                self.buckets_at_once = at_once(replies, buckets.len(), BUCKETS_AT_ONCE);
                buckets.into_iter().zip(replies).try_for_each(|(bucket, raw)| self.take_fields(bucket, raw, env))
            }
            Sent::Keys(load) => self.take_keys(load, replies, env),
            Sent::Large => replies.iter().try_for_each(|raw| self.take_large(raw, env)),
            Sent::Owner => replies.iter().try_for_each(|raw| self.take_owner(raw, env)),
            Sent::Direct(mut calls) => {
                let ([answer], Some(call)) = (replies, calls.pop_front()) else { return Err(UNEXPECTED.to_owned()) };
                if !calls.is_empty() {
                    self.sent = Sent::Direct(calls);
                }
                self.take_direct(call, answer)
            }
            Sent::Move { calls, loads } => {
                let (loaded, answers) = replies.split_at(usize::from(loads).min(replies.len()));
                loaded.iter().try_for_each(|reply| refuse_error(reply))?;
                calls.into_iter().zip(answers).try_for_each(|(keys, answer)| {
                    if answer.starts_with(b"-NOSCRIPT") && !loads {
                        // Somebody had the server forget all scripts.
                        self.is_loaded = false;
                        self.again.extend(keys.into_iter().map(|planned| planned.key));
                        return Ok(());
                    }
                    if self.is_led_elsewhere(answer) {
                        self.moved.found -= keys.len() as u64;
                        self.moved.led_elsewhere += keys.len() as u64;
                        return Ok(());
                    }
                    self.take_moves(keys, answer)
                })
            }
        }
    }

    fn take_direct(&mut self, call: Call, answer: &[u8]) -> Result<(), String> {
        if self.is_led_elsewhere(answer) {
            self.moved.led_elsewhere += call.len() as u64;
            return Ok(());
        }
        if let Outcome::Left(keys, moved) = self.direct.handle_reply(call, answer)? {
            self.moved.found += moved;
            self.moved.moved += moved;
            self.keys.extend(keys);
        }
        Ok(())
    }

    fn take_owner(&mut self, raw: &[u8], env: &Env<'_>) -> Result<(), String> {
        if self.is_led_elsewhere(raw) {
            self.large.leave_found();
            self.moved.led_elsewhere += 1;
            return Ok(());
        }
        self.large.take_owner(raw, env)
    }

    fn take_large(&mut self, raw: &[u8], env: &Env<'_>) -> Result<(), String> {
        if self.is_led_elsewhere(raw) {
            self.large.leave();
            self.moved.led_elsewhere += 1;
            return Ok(());
        }
        match self.large.handle_reply(raw)? {
            Step::More | Step::Nothing => {}
            Step::Moved => {
                self.moved.found += 1;
                self.moved.moved += 1;
            }
            Step::Again(key) => self.again.push(key),
            Step::Whole(key) => self.whole.push(key),
            Step::Stays(key, why) => {
                self.moved.found += 1;
                self.leave(&key, why, env);
            }
        }
        self.moved.members = self.large.members;
        Ok(())
    }

    /// Whether a node says that it doesn't carry this out, as another has the slot, or gets it. A node that serves nothing
    /// at all ends the walk.
    fn is_led_elsewhere(&self, raw: &[u8]) -> bool {
        let elsewhere = |redirect| matches!(redirect, Redirect::Moved(..) | Redirect::Ask(..) | Redirect::TryAgain);
        self.by_slot && Redirect::read(raw).is_some_and(elsewhere)
    }

    /// Leaves keys alone whose slots a node says to be elsewhere; the others are read anew. Whether there were such.
    fn leave_what_is_elsewhere(&mut self, load: &Load, replies: &[Vec<u8>]) -> bool {
        if !replies.iter().any(|reply| self.is_led_elsewhere(reply)) {
            return false;
        }
        let slots: BTreeSet<Slot> = replies.iter().filter_map(|reply| slot_elsewhere(reply)).collect();
        let is_elsewhere = |key: &&Key| slots.contains(&Slot::of(&key.logical));
        let (gone, here): (Vec<&Key>, Vec<&Key>) = load.keys().iter().partition(is_elsewhere);
        // Where the node names none of their slots, nothing would come of asking again.
        let again = if gone.is_empty() { Vec::new() } else { here };
        self.moved.led_elsewhere += (load.keys().len() - again.len()) as u64;
        self.again.extend(again.iter().map(|key| key.logical.clone()));
        true
    }

    fn take_names(&mut self, raw: &[u8], env: &Env<'_>) -> Result<(), String> {
        for name in self.names.take(parse(raw)?).map_err(|error| error.to_string())? {
            match env.layout.read_physical(name) {
                Physical::Plain => {
                    if self.task == Task::Move
                        && let Located::Moving(moving) = env.layout.locate(name)
                        && moving.old.is_none()
                        && !self.direct.take(name, &moving, env)
                    {
                        self.keys.push(name.to_vec());
                    }
                }
                Physical::Zipped { namespace, key } if self.concerns(namespace, name, env) => {
                    self.keys.push(key);
                }
                Physical::Bucket(namespace) if self.concerns(namespace, name, env) => {
                    self.buckets.push(BucketWalk::new(namespace, name));
                }
                Physical::Part { nonce, name: PartName::Remainder, .. } if self.task == Task::Move => {
                    self.large.take_remainder(name, nonce);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn concerns(&self, namespace: NamespaceIndex, name: &[u8], env: &Env<'_>) -> bool {
        match &self.task {
            Task::Move => env.layout.is_former_place(namespace, name),
            Task::Recode(namespaces) => namespaces.contains(&namespace),
        }
    }

    fn take_fields(&mut self, mut bucket: BucketWalk, raw: &[u8], env: &Env<'_>) -> Result<(), String> {
        if self.is_led_elsewhere(raw) {
            self.moved.led_elsewhere += 1;
            return Ok(());
        }
        let handmade = env.layout.packing_in(bucket.name()).is_some();
        if handmade && raw.starts_with(b"-WRONGTYPE") {
            self.leave_in(bucket.namespace(), bucket.name(), Left::NotAHash);
            return Ok(());
        }
        for (field, _) in bucket.take(parse(raw)?).map_err(|error| error.to_string())? {
            match env.layout.key_of(bucket.namespace(), bucket.name(), field) {
                Some(key) => match env.layout.locate(&key) {
                    Located::Moving(moving) if self.task == Task::Move && self.direct.take(&key, &moving, env) => {}
                    _ => self.keys.push(key),
                },
                None if handmade => {
                    self.moved.without_key += 1;
                    self.leave_in(bucket.namespace(), bucket.name(), Left::NoKey { field: field.to_vec() });
                }
                None => {
                    let field = field.escape_ascii();
                    let why = Left::Damaged(format!("its field '{field}' is the place of no key"));
                    self.leave_in(bucket.namespace(), bucket.name(), why);
                }
            }
        }
        if !bucket.is_over() {
            self.buckets.push(bucket);
        }
        Ok(())
    }

    fn take_keys(&mut self, mut load: Box<Load>, replies: &[Vec<u8>], env: &mut Env<'_>) -> Result<(), String> {
        let mut wire = Vec::new();
        self.keys_at_once = at_once(replies, load.keys().len(), KEYS_AT_ONCE);
        if self.leave_what_is_elsewhere(&load, replies) {
            return Ok(());
        }
        for reply in replies {
            match load.handle_reply(reply, env, &mut wire) {
                Loading::Wait => {}
                Loading::More(count) => self.more = Some((mem::take(&mut wire), count)),
                Loading::Failed(Refusal::Error(error)) => {
                    refuse_error(&error)?;
                    return Err(String::from_utf8_lossy(&error).into_owned());
                }
                Loading::Failed(Refusal::Unexpected) => return Err(UNEXPECTED.to_owned()),
                Loading::Ready => load.keys().iter().try_for_each(|key| self.plan(key, env))?,
            }
        }
        if self.more.is_some() {
            self.sent = Sent::Keys(load);
        }
        Ok(())
    }

    /// Says what is to be done about one key, both of whose places have been read.
    fn plan(&mut self, key: &Key, env: &mut Env<'_>) -> Result<(), String> {
        match self.task {
            Task::Move => self.plan_move(key, env),
            Task::Recode(_) => self.plan_recode(key, env),
        }
    }

    /// Says what is to be done about the value of one key.
    fn plan_recode(&mut self, key: &Key, env: &mut Env<'_>) -> Result<(), String> {
        let [spot] = key.spots() else { return Ok(()) };
        let Some(place) = spot.place.as_ref().filter(|_| spot.is_stored()) else { return Ok(()) };
        let held = match key.held() {
            Ok(held) => held,
            Err(why) => {
                self.leave(&key.logical, Left::Damaged(why), env);
                return Ok(());
            }
        };
        let Some((value, expires_at_ms)) = store::value_of(&held) else { return Ok(()) };
        self.moved.seen += 1;
        // What clients write goes by the codec of now, expired or not: a walk finds ever less.
        if spot.is_stored_as_written_now(env.layout.namespace(place.namespace), &key.logical, &value) {
            return Ok(());
        }
        self.moved.found += 1;
        match expires_at_ms {
            // It names its codec as long as it is there.
            Some(at) if at < env.now_ms => self.push(key, &Held::Nothing, Some(at), env),
            _ => self.push(key, &held, None, env),
        }
    }

    fn plan_move(&mut self, key: &Key, env: &mut Env<'_>) -> Result<(), String> {
        let [new, old] = key.spots() else { return Ok(()) };
        if !old.is_stored() {
            // A client was quicker, or the key is gone.
            return Ok(());
        }
        let held = key.held().map(|held| without_expired_fields(held, env.now_ms));
        if matches!(&held, Ok(Held::Other(kind)) if kind.is_empty()) {
            self.again.push(key.logical.clone());
            return Ok(());
        }
        if let Some(kind) = old.unread_members()
            && !self.is_whole
        {
            return self.plan_steps(key, kind, env);
        }
        // What lies in a bucket as a whole goes as one, however many members it has.
        let may_go_in_steps = !self.is_whole && (old.bucket().is_none() || old.parts().is_some());
        if let Ok(Held::Collection(held)) = &held
            && held.collection.len() as u64 > MOVED_AT_ONCE
            && may_go_in_steps
            && !store::is_packed(env, key, held)
        {
            return self.plan_steps(key, held.collection.kind(), env);
        }
        self.moved.found += 1;
        if let Ok(held) = &held
            && let Some(kind) = another_type(key, held)
        {
            self.leave(&key.logical, Left::OtherType(kind.to_owned()), env);
            return Ok(());
        }
        // The same in both: a server refused the second half of a step, and says so each time; the first stays.
        if new.is_stored() && !key.holds_the_same_everywhere() {
            self.leave(&key.logical, Left::InBoth, env);
            return Ok(());
        }
        let mut expired_at_ms = key.member_expiries().filter(|at| *at < env.now_ms).max();
        let held = match held {
            Ok(Held::Other(kind)) => {
                self.leave(&key.logical, Left::OtherType(String::from_utf8_lossy(&kind).into_owned()), env);
                return Ok(());
            }
            Ok(
                Held::String(Entry { expires_at_ms: Some(at), .. })
                | Held::Collection(Collected { expires_at_ms: Some(at), .. }),
            ) if at < env.now_ms => {
                expired_at_ms = Some(at);
                Held::Nothing
            }
            Ok(held) => held,
            Err(why) => {
                self.leave(&key.logical, Left::Damaged(why), env);
                return Ok(());
            }
        };
        match self.push(key, &held, expired_at_ms, env) {
            // A hash whose fields expire stays where it is before a server that hasn't such.
            Err(why) if matches!(held, Held::Collection(_)) => {
                self.leave(&key.logical, Left::Damaged(why), env);
                Ok(())
            }
            pushed => pushed,
        }
    }

    /// Has a set or hash of many members moved in steps.
    fn plan_steps(&mut self, key: &Key, kind: CollectionKind, env: &mut Env<'_>) -> Result<(), String> {
        let [new, old] = key.spots() else { return Ok(()) };
        let is_over = old.framed_until().is_some_and(|at| at < env.now_ms);
        if is_over {
            // Its parts are nobody's without it.
            self.moved.found += 1;
            return self.push(key, &Held::Nothing, old.framed_until(), env);
        }
        if key.collection() != Some(kind) {
            self.moved.found += 1;
            self.leave(&key.logical, Left::OtherType(kind.name().to_owned()), env);
        } else if new.is_stored() {
            self.moved.found += 1;
            self.leave(&key.logical, Left::InBoth, env);
        } else {
            self.large.take(&key.logical, kind, old.parts(), env);
        }
        Ok(())
    }

    /// Has a key written with what it holds, if that hasn't changed, and if what has expired has so by the server's clock
    /// too.
    fn push(&mut self, key: &Key, held: &Held, expired_at_ms: Option<i64>, env: &mut Env<'_>) -> Result<(), String> {
        let mut writes = CompareAndSet::default();
        store::plan_write(env, &mut writes, key, held)?;
        key.check(&mut writes);
        if let Some(at) = expired_at_ms {
            writes.check_time_past(at);
        }
        let planned = Planned { key: key.logical.clone(), is_expired: *held == Held::Nothing };
        self.groups.push((planned, writes));
        Ok(())
    }

    fn take_moves(&mut self, keys: Vec<Planned>, raw: &[u8]) -> Result<(), String> {
        let Reply::Array(changed) = parse(raw)? else { return Err("the script gave no list".to_owned()) };
        let changed: BTreeSet<usize> = changed
            .filter_map(|number| match number {
                Reply::Integer(number) => usize::try_from(number - 1).ok(),
                _ => None,
            })
            .collect();
        for (at, planned) in keys.into_iter().enumerate() {
            if changed.contains(&at) {
                self.moved.found -= 1;
                self.again.push(planned.key);
            } else {
                self.moved.moved += 1;
                self.moved.expired += u64::from(planned.is_expired);
            }
        }
        Ok(())
    }

    fn leave(&mut self, key: &[u8], why: Left, env: &Env<'_>) {
        match env.layout.locate(key).namespace() {
            Some(namespace) => self.moved.left_in.extend([namespace]),
            // Nobody knows whose it is, so none is through.
            None => self.moved.left_in.extend(env.layout.iter().map(|(namespace, _)| namespace)),
        }
        self.list(key, why);
    }

    fn leave_in(&mut self, namespace: NamespaceIndex, key: &[u8], why: Left) {
        self.moved.left_in.insert(namespace);
        self.list(key, why);
    }

    fn list(&mut self, key: &[u8], why: Left) {
        self.moved.left_count += 1;
        if self.moved.left.len() < LISTED {
            self.moved.left.push((key.to_vec(), why));
        }
    }
}

/// What is left of a hash whose fields expire, and nothing once all have.
fn without_expired_fields(held: Held, now_ms: i64) -> Held {
    match held {
        Held::Collection(Collected { collection, expires_at_ms }) => collection
            .living(now_ms)
            .map_or(Held::Nothing, |collection| Held::Collection(Collected { collection, expires_at_ms })),
        held => held,
    }
}

/// The type of what lies under a key of a namespace of sets or hashes, where it is none of these.
fn another_type(key: &Key, held: &Held) -> Option<&'static str> {
    let wanted = key.collection()?;
    match held {
        Held::String(_) | Held::Unread(_) => Some("string"),
        Held::Collection(held) => Some(held.collection.kind()).filter(|kind| *kind != wanted).map(CollectionKind::name),
        Held::Nothing | Held::Other(_) => None,
    }
}

/// How many the next batch has, where the replies to `count` of them were so large.
fn at_once(replies: &[Vec<u8>], count: usize, most: usize) -> usize {
    let bytes: usize = replies.iter().map(Vec::len).sum();
    let bytes_each = bytes.div_ceil(count.max(1)).max(1);
    (BYTES_AT_ONCE / bytes_each).clamp(1, most)
}

/// The slot that a node says to be at another, or on its way there.
fn slot_elsewhere(reply: &[u8]) -> Option<Slot> {
    match Redirect::read(reply)? {
        Redirect::Moved(slot, _) | Redirect::Ask(slot, _) => Some(slot),
        _ => None,
    }
}

fn parse(raw: &[u8]) -> Result<Reply<'_>, String> {
    refuse_error(raw)?;
    Reply::parse(raw).map_err(|error| error.to_string())
}

fn refuse_error(raw: &[u8]) -> Result<(), String> {
    match Reply::parse(raw) {
        Ok(Reply::Error(text)) => Err(String::from_utf8_lossy(text).into_owned()),
        _ => Ok(()),
    }
}
