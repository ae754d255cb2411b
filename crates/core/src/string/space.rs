//! The keys that a command names, decoded, while it is worked out.

use std::collections::{BTreeMap, BTreeSet};

use crate::collection::{Collection, CollectionKind, Hash, Set};
use crate::notify::Event;
use crate::resp::Answer;

/// A string key: its value, and when it expires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The value, as the application wrote it.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970, or never.
    pub expires_at_ms: Option<i64>,
}

/// A folded set or hash: its members, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The members, or the fields.
    pub collection: Collection,
    /// When it expires, in milliseconds since 1970, or never.
    pub expires_at_ms: Option<i64>,
}

impl Collected {
    /// When fields of it expire, or have expired, in no order.
    pub(crate) fn member_expiries(&self) -> impl Iterator<Item = i64> {
        let hash = match &self.collection {
            Collection::Hash(hash) => Some(hash),
            Collection::Set(_) => None,
        };
        hash.into_iter().flat_map(Hash::expiries)
    }

    /// When the next of its fields expires.
    pub(crate) fn next_member_expiry(&self, now_ms: i64) -> Option<i64> {
        self.member_expiries().filter(|at| *at >= now_ms).min()
    }
}

/// What is there and whose bytes are not at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The key that it was loaded under. It is another than its own once it was renamed or copied.
    pub origin: Vec<u8>,
    /// When it expires, in milliseconds since 1970, or never.
    pub expires_at_ms: Option<i64>,
    /// What it is, where that is no string.
    pub collection: Option<CollectionKind>,
    /// Why its bytes are not at hand.
    pub why: WhyUnread,
}

/// Why a string's bytes are not at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnread {
    /// They are many, and so they stayed in the server.
    Large,
    /// They can't be decoded: the error reply of whoever needs them, code first.
    Undecodable(String),
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing; the key does not exist.
    Nothing,
    /// A string.
    String(Entry),
    /// A string whose bytes are not at hand. What needs none of them works on it all the same.
    Unread(Unread),
    /// A set or a hash whose members are at hand.
    Collection(Collected),
    /// A list, hash, set, sorted set, stream or module type, by the name TYPE gives.
    Other(Vec<u8>),
}

/// A part of a server's reply to a [`HelpRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nil.
    Nil,
    /// A simple or bulk string.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// An error, its code first, without the leading `-`.
    Error(String),
    /// An array, a set, or a map whose keys and values follow one another.
    List(Vec<Reply>),
}

/// Stands in an ask for the scratch key, which is chosen where it is sent.
pub(crate) const SCRATCH: &[u8] = b"(scratch)";

/// Commands that the server must run, atomically, before the function can go on. They name only the
/// scratch key, as their first argument, which each ask begins and ends without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpRequest {
    /// The commands, each a list of arguments.
    pub commands: Vec<Vec<Vec<u8>>>,
}

/// Why a function stopped without a reply of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// An error reply, code first: `ERR syntax error`.
    Error(String),
    /// The same of a key of another type, about which the space knows too little; the server knows it all.
    OtherType(String),
    /// Run these on the server, put the replies where [`Space::help`] finds them, and call again.
    Ask(HelpRequest),
    /// A value that was left unread is needed, or one would grow beyond what is worked on here: the server works on
    /// it where it lies, or it is read whole and the function is called again.
    Large,
    /// A value is needed that can't be decoded; the error reply, code first.
    Undecodable(String),
}

impl From<&str> for Halt {
    fn from(message: &str) -> Self {
        Self::Error(message.to_owned())
    }
}

/// How a function ends: a reply written, or a halt.
pub type Flow = Result<(), Halt>;

/// The error of a command that meets another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[derive(Clone, Debug)]
struct Slot {
    held: Held,
    changed: bool,
}

/// Decoded keys, and what a command did to them.
///
/// A key that was not loaded reads as absent; loading is the exchange's part.
#[derive(Clone, Debug, Default)]
pub struct Space {
    slots: BTreeMap<Vec<u8>, Slot>,
    now_ms: i64,
    help: Option<Vec<Reply>>,
    /// No value may grow beyond so many bytes here.
    growth_limit: Option<usize>,
    /// What has happened to keys, in its order; none where nobody wants to know.
    events: Option<Vec<(Vec<u8>, Event)>>,
    /// What members are drawn by.
    seed: u64,
    /// The hashes of which fields had expired, until something is written to them.
    lost_fields: BTreeSet<Vec<u8>>,
}

impl Space {
    /// An empty space at a time, in milliseconds since 1970 by the server's clock.
    pub fn new(now_ms: i64) -> Self {
        Self { now_ms, ..Self::default() }
    }

    /// The same, where a command that would make a value longer than `bytes` halts as [`Halt::Large`].
    #[must_use]
    pub fn bounded(self, bytes: usize) -> Self {
        Self { growth_limit: Some(bytes), ..self }
    }

    /// The same, where it is noted what happens to keys, if `notes`.
    #[must_use]
    pub fn noting_events(self, notes: bool) -> Self {
        Self { events: notes.then(Vec::new), ..self }
    }

    /// The same, where members that are drawn at random are drawn by this number.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// A number that looks random, the next one by the space's seed (SplitMix64).
    pub fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound` that looks random, each by the same chance; 0 where none is below it.
    pub fn draw_below(&mut self, bound: usize) -> usize {
        // The high half of the product: of 2^64 numbers drawn, one at most goes to one number below more than to another.
        let product = u128::from(self.draw()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// What commands did to keys, in the order in which a server tells it.
    pub fn events(&self) -> impl Iterator<Item = (&[u8], Event)> {
        self.events.iter().flatten().map(|(key, event)| (key.as_slice(), *event))
    }

    /// Says what a command has done to a key.
    pub(crate) fn note(&mut self, event: Event, key: &[u8]) {
        if let Some(events) = &mut self.events {
            events.push((key.to_vec(), event));
        }
    }

    /// Halts where a value is to grow to a length that isn't worked on here.
    pub(super) fn check_growth(&self, len: usize) -> Flow {
        if self.growth_limit.is_some_and(|limit| len > limit) { Err(Halt::Large) } else { Ok(()) }
    }

    /// The time the command runs at, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Moves the clock; what has expired by then reads as absent.
    pub fn set_now_ms(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        for (key, slot) in &mut self.slots {
            if drop_expired_fields(&mut slot.held, now_ms) {
                self.lost_fields.insert(key.clone());
            }
        }
    }

    /// Puts what the server holds under `key`. An expired string is loaded as nothing, and a hash without the fields whose
    /// time is over, which go from the server with the next write.
    pub fn load(&mut self, key: &[u8], mut held: Held) {
        if drop_expired_fields(&mut held, self.now_ms) {
            self.lost_fields.insert(key.to_vec());
        }
        self.slots.insert(key.to_vec(), Slot { held, changed: false });
    }

    /// The string under `key`, none where there is none or it has expired.
    ///
    /// # Errors
    /// WRONGTYPE where the key holds another type, or a halt where the string's bytes are not at hand.
    pub fn string(&self, key: &[u8]) -> Result<Option<&Entry>, Halt> {
        match self.held(key) {
            Held::Nothing => Ok(None),
            Held::String(entry) => Ok(Some(entry)),
            Held::Unread(Unread { why: WhyUnread::Large, collection: None, .. }) => Err(Halt::Large),
            Held::Unread(Unread { why: WhyUnread::Undecodable(error), .. }) => Err(Halt::Undecodable(error.clone())),
            Held::Unread(_) | Held::Collection(_) | Held::Other(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// The set under `key`, none where there is nothing or it has expired.
    ///
    /// # Errors
    /// WRONGTYPE where the key holds another type, or the error of one that can't be decoded.
    pub fn set(&self, key: &[u8]) -> Result<Option<&Set>, Halt> {
        match self.collection(key, CollectionKind::Set)? {
            None => Ok(None),
            Some(Collection::Set(set)) => Ok(Some(set)),
            Some(Collection::Hash(_)) => Err(WRONG_TYPE.into()),
        }
    }

    /// The hash under `key`, none where there is nothing or it has expired.
    ///
    /// # Errors
    /// WRONGTYPE where the key holds another type, or the error of one that can't be decoded.
    pub fn hash(&self, key: &[u8]) -> Result<Option<&Hash>, Halt> {
        match self.collection(key, CollectionKind::Hash)? {
            None => Ok(None),
            Some(Collection::Hash(hash)) => Ok(Some(hash)),
            Some(Collection::Set(_)) => Err(WRONG_TYPE.into()),
        }
    }

    fn collection(&self, key: &[u8], kind: CollectionKind) -> Result<Option<&Collection>, Halt> {
        match self.held(key) {
            Held::Unread(Unread { why: WhyUnread::Large, collection, .. }) if *collection == Some(kind) => {
                Err(Halt::Large)
            }
            Held::Nothing => Ok(None),
            Held::Collection(Collected { collection, .. }) => Ok(Some(collection)),
            Held::Unread(Unread { why: WhyUnread::Undecodable(error), .. }) => Err(Halt::Undecodable(error.clone())),
            Held::String(_) | Held::Unread(_) | Held::Other(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// The set under `key`, to change it where it is; where there is nothing, an empty one without an expiry. Counts as a write.
    /// None where the key holds another type. Whoever has taken the last member says [`Self::drop_if_empty`].
    pub fn edit_set(&mut self, key: &[u8]) -> Option<&mut Set> {
        match self.edit_collection(key, CollectionKind::Set)? {
            Collection::Set(set) => Some(set),
            Collection::Hash(_) => None,
        }
    }

    /// The same of a hash. That fields of it had expired is said first.
    pub fn edit_hash(&mut self, key: &[u8]) -> Option<&mut Hash> {
        self.note_lost_fields(key);
        match self.edit_collection(key, CollectionKind::Hash)? {
            Collection::Hash(hash) => Some(hash),
            Collection::Set(_) => None,
        }
    }

    /// Has the hash under `key`, if there is one, changed by a function that says whether it has changed anything; what it says.
    pub fn try_edit_hash(&mut self, key: &[u8], change: impl FnOnce(&mut Hash) -> bool) -> bool {
        if !matches!(self.held(key), Held::Collection(_)) {
            return false;
        }
        let Some(slot) = self.slots.get_mut(key) else { return false };
        let Held::Collection(Collected { collection: Collection::Hash(hash), .. }) = &mut slot.held else {
            return false;
        };
        let has_changed = change(hash);
        if has_changed {
            slot.changed = true;
            self.note_lost_fields(key);
        }
        has_changed
    }

    fn note_lost_fields(&mut self, key: &[u8]) {
        if !self.lost_fields.remove(key) {
            return;
        }
        match self.held(key) {
            Held::Collection(_) => self.note(Event::HExpired, key),
            Held::Nothing => {
                self.note(Event::HExpired, key);
                self.note(Event::Del, key);
            }
            _ => {}
        }
    }

    fn edit_collection(&mut self, key: &[u8], kind: CollectionKind) -> Option<&mut Collection> {
        match self.held(key) {
            Held::Nothing => self.put_collection(key, Collection::new(kind), None),
            Held::Collection(Collected { collection, .. }) if collection.kind() == kind => {}
            _ => return None,
        }
        let slot = self.slots.get_mut(key)?;
        slot.changed = true;
        match &mut slot.held {
            Held::Collection(Collected { collection, .. }) => Some(collection),
            _ => None,
        }
    }

    /// Writes a collection, its expiry included, whatever was there.
    pub fn put_collection(&mut self, key: &[u8], collection: Collection, expires_at_ms: Option<i64>) {
        if self.events.is_some() && !self.exists(key) {
            self.note(Event::New, key);
        }
        let held = Held::Collection(Collected { collection, expires_at_ms });
        self.write(key, held);
    }

    /// Removes a collection that has no member left, as a server does, and says so; whether it had none.
    pub fn drop_if_empty(&mut self, key: &[u8]) -> bool {
        let is_empty =
            matches!(self.held(key), Held::Collection(Collected { collection, .. }) if collection.is_empty());
        if is_empty {
            self.remove(key);
            self.note(Event::Del, key);
        }
        is_empty
    }

    /// When what is under `key` expires, whether or not its bytes are at hand; none where there is nothing, or a type that isn't
    /// worked on here.
    pub fn expiry(&self, key: &[u8]) -> Option<Option<i64>> {
        match self.held(key) {
            Held::String(Entry { expires_at_ms, .. })
            | Held::Unread(Unread { expires_at_ms, .. })
            | Held::Collection(Collected { expires_at_ms, .. }) => Some(*expires_at_ms),
            Held::Nothing | Held::Other(_) => None,
        }
    }

    /// Has what is under `key` expire at another time, or never.
    pub fn set_expiry(&mut self, key: &[u8], at_ms: Option<i64>) {
        if self.expiry(key).is_none() {
            return;
        }
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.changed = true;
        match &mut slot.held {
            Held::String(Entry { expires_at_ms, .. })
            | Held::Unread(Unread { expires_at_ms, .. })
            | Held::Collection(Collected { expires_at_ms, .. }) => {
                *expires_at_ms = at_ms;
            }
            Held::Nothing | Held::Other(_) => {}
        }
    }

    /// What `key` holds now. In the very millisecond of its expiry a string is still there.
    pub fn held(&self, key: &[u8]) -> &Held {
        self.slots.get(key).map_or(&Held::Nothing, |slot| self.living(&slot.held))
    }

    fn living<'a>(&self, held: &'a Held) -> &'a Held {
        match held {
            Held::String(Entry { expires_at_ms: Some(at), .. })
            | Held::Unread(Unread { expires_at_ms: Some(at), .. })
            | Held::Collection(Collected { expires_at_ms: Some(at), .. })
                if self.now_ms > *at =>
            {
                &Held::Nothing
            }
            held => held,
        }
    }

    /// Writes a string, its expiry included, whatever was there.
    pub fn put(&mut self, key: &[u8], entry: Entry) {
        if self.events.is_some() && !self.exists(key) {
            self.note(Event::New, key);
        }
        self.write(key, Held::String(entry));
    }

    /// The string under `key`, to change it where it is; none where there is none. Counts as a write.
    pub fn edit(&mut self, key: &[u8]) -> Option<&mut Entry> {
        if !matches!(self.held(key), Held::String(_)) {
            return None;
        }
        let slot = self.slots.get_mut(key)?;
        slot.changed = true;
        match &mut slot.held {
            Held::String(entry) => Some(entry),
            Held::Nothing | Held::Unread(_) | Held::Collection(_) | Held::Other(_) => None,
        }
    }

    /// The keys that hold anything now, in the order of their bytes.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let living = |slot: &Slot| *self.living(&slot.held) != Held::Nothing;
        self.slots.iter().filter(move |(_, slot)| living(slot)).map(|(key, _)| key.as_slice())
    }

    /// Whether there is anything under `key`, of any type.
    pub fn exists(&self, key: &[u8]) -> bool {
        *self.held(key) != Held::Nothing
    }

    /// Moves what `from` holds, of any type, to `to`, whatever was there.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        self.copy(from, to);
        self.remove(from);
    }

    /// Gives `to` what `from` holds, of any type, whatever was there.
    pub fn copy(&mut self, from: &[u8], to: &[u8]) {
        // What was there is removed first, so that the key is a new one in any case.
        self.note(Event::New, to);
        let held = self.held(from).clone();
        self.write(to, held);
    }

    fn write(&mut self, key: &[u8], held: Held) {
        self.lost_fields.remove(key);
        self.slots.insert(key.to_vec(), Slot { held, changed: true });
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) {
        self.write(key, Held::Nothing);
    }

    /// The keys that were written or removed, with what they hold now; in the order of their bytes. A string
    /// that was written with an expiry in the past shows as nothing.
    pub fn changes(&self) -> impl Iterator<Item = (&[u8], &Held)> {
        self.slots.iter().filter(|(_, slot)| slot.changed).map(|(key, slot)| (key.as_slice(), self.living(&slot.held)))
    }

    /// The keys that were given a value which has expired already.
    pub(crate) fn written_expired(&self) -> impl Iterator<Item = &[u8]> {
        let has_expired = |slot: &Slot| slot.held != Held::Nothing && *self.living(&slot.held) == Held::Nothing;
        let gone = self.slots.iter().filter(move |(_, slot)| slot.changed && has_expired(slot));
        gone.map(|(key, _)| key.as_slice())
    }

    /// The replies to the last [`HelpRequest`], one a command; taken, so that the next ask starts afresh.
    pub fn help(&mut self) -> Option<Vec<Reply>> {
        self.help.take()
    }

    /// Hands over the replies to a [`HelpRequest`].
    pub fn answer_ask(&mut self, replies: Vec<Reply>) {
        self.help = Some(replies);
    }
}

/// Takes the fields out of a hash whose time is over, and the hash with the last of them; whether there were any.
fn drop_expired_fields(held: &mut Held, now_ms: i64) -> bool {
    let Held::Collection(Collected { collection: Collection::Hash(hash), .. }) = held else { return false };
    let has_dropped = hash.remove_expired(now_ms);
    if has_dropped && hash.is_empty() {
        *held = Held::Nothing;
    }
    has_dropped
}

/// Runs a command's function and writes its error as the reply where it halts on one.
///
/// # Errors
/// The ask, where the server's help is needed.
pub fn finish(flow: Flow, answer: &mut Answer<'_>) -> Result<(), HelpRequest> {
    match flow {
        Ok(()) => Ok(()),
        Err(Halt::Error(message) | Halt::OtherType(message) | Halt::Undecodable(message)) => {
            answer.error(&message);
            Ok(())
        }
        Err(Halt::Large) => {
            answer.error("ERR keyfold: the value is too large to be worked on here");
            Ok(())
        }
        Err(Halt::Ask(ask)) => Err(ask),
    }
}
