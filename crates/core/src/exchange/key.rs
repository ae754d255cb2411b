//! One key as an exchange sees it: where it may lie, what was found there, and what that is.

use std::borrow::Cow;
use std::cell::Cell;

use smallvec::{SmallVec, smallvec};

use crate::codec;
use crate::collection::parts::{Header, Remainder};
use crate::collection::{Collection, CollectionKind};
use crate::exchange::parts::{self, InParts};
use crate::exchange::reply_kind::Refusal;
use crate::exchange::script::CompareAndSet;
use crate::exchange::sum::Sum;
use crate::exchange::{Env, failure};
use crate::frame::{Body, Frame};
use crate::layout::{Layout, Located, Namespace, NamespaceIndex, Place};
use crate::placement::handmade::Packing;
use crate::resp::Reply;
use crate::string::{Collected, Entry, Held, TOO_MUCH_DECODED, Unread, WhyUnread};

/// One key: the spots where it may lie, and what was found there.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// What the application calls it.
    pub(crate) logical: Vec<u8>,
    /// Where it may lie: one spot, or two while its namespace is moved. It is written to the first.
    pub(super) spots: SmallVec<[Spot; 1]>,
}

/// One place in the server where a key may lie.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// Its place by the layout; none for a key of its own under its own name.
    pub(crate) place: Option<Place>,
    pub(super) found: Found,
    /// The decoded value that `found` stands for, or the error reply if it can't be decoded.
    held: Result<Held, String>,
}

/// Stored bytes, and the value that they mean, a set or hash packed; none for a value that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strange<'s> {
    pub(crate) stored: &'s [u8],
    pub(crate) means: Option<Cow<'s, [u8]>>,
}

/// What lay in a spot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    #[default]
    Nothing,
    /// A bucket's field: the stored value, and the spilled value it points to.
    Field { stored: Vec<u8>, spilled: Spilled },
    /// A key of its own: what TYPE, GET and PEXPIRETIME said.
    Native { kind: Vec<u8>, value: Option<Vec<u8>>, expires_at_ms: Option<i64>, expiry_is_exact: bool },
    /// A set or hash of its own, and what DUMP said of it.
    Collection { payload: Vec<u8>, collection: Collection, expires_at_ms: Option<i64>, expiry_is_exact: bool },
    /// One that has so many members that they stayed in the server.
    TooMany { kind: Vec<u8>, why: String, expires_at_ms: Option<i64> },
}

impl Found {
    /// Takes a string of its own that is longer for unread: it was read so far only.
    pub(super) fn leave_longer_than(&mut self, most: usize) {
        if let Self::Native { kind, value: Some(value), expires_at_ms, .. } = self
            && value.len() > most
        {
            *self = Self::TooMany { kind: std::mem::take(kind), why: String::new(), expires_at_ms: *expires_at_ms };
        }
    }
}

/// What is known of the spilled value that a stored value points to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Spilled {
    /// It points to none, or to one that is gone, or that wasn't looked at yet.
    #[default]
    Nothing,
    /// It was read.
    Read(Vec<u8>),
    /// It is there, and too long to be read without need.
    Large,
    /// All that lies in its parts.
    Members(Collection),
    /// It lies in parts, and can't be worked on as a whole.
    Unreadable(String),
}

impl Spot {
    fn at(place: Option<Place>) -> Self {
        Self { place, found: Found::Nothing, held: Ok(Held::Nothing) }
    }

    /// The physical key that holds it; `logical` where it is its own.
    pub(crate) fn physical<'k>(&'k self, logical: &'k [u8]) -> &'k [u8] {
        self.place.as_ref().map_or(logical, |place| &place.physical)
    }

    /// Its bucket's place, where it is in one, be it a handmade hash.
    pub(crate) fn bucket(&self) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.kind.is_field())
    }

    /// How its value lies in a handmade hash, where it is in one.
    fn packing(&self) -> Option<Packing> {
        self.place.as_ref()?.kind.packing()
    }

    /// The frame that lies there; none in a handmade hash, where the same bytes are a value.
    pub(super) fn frame(&self) -> Option<Frame<'_>> {
        match &self.found {
            Found::Field { stored, .. } if self.packing().is_none() => Frame::decode(stored).ok(),
            _ => None,
        }
    }

    /// When what lies there expires, as far as that can be read.
    fn expires_at_ms(&self) -> Option<i64> {
        match &self.found {
            Found::Native { expires_at_ms, .. }
            | Found::Collection { expires_at_ms, .. }
            | Found::TooMany { expires_at_ms, .. } => *expires_at_ms,
            _ => self.frame()?.expires_at_ms,
        }
    }

    /// When what lies there expires, where its frame says so and not the server.
    pub(crate) fn framed_until(&self) -> Option<i64> {
        self.frame()?.expires_at_ms
    }

    /// The nonce of the spilled value, where there is one.
    pub(crate) fn spill(&self) -> Option<u64> {
        match self.frame()?.body {
            Body::Spill { nonce, .. } => Some(nonce),
            _ => None,
        }
    }

    /// The spilled value that was left unread because it is large: its nonce, and the slot of the codec that wrote it.
    pub(crate) fn large_spill(&self) -> Option<(u64, Option<u8>)> {
        match (&self.found, self.frame()?.body) {
            (Found::Field { spilled: Spilled::Large, .. }, Body::Spill { nonce, slot }) => Some((nonce, slot)),
            _ => None,
        }
    }

    /// What points to parts: their nonce.
    pub(crate) fn parts(&self) -> Option<u64> {
        match self.frame()?.body {
            Body::Parts { nonce, .. } => Some(nonce),
            _ => None,
        }
    }

    /// What is stored in the field.
    pub(crate) fn stored(&self) -> Option<&[u8]> {
        match &self.found {
            Found::Field { stored, .. } => Some(stored),
            _ => None,
        }
    }

    /// The header of a collection in parts.
    pub(crate) fn header(&self) -> Option<Header> {
        match self.frame()?.body {
            Body::Parts { header, .. } => Header::decode(header),
            _ => None,
        }
    }

    /// The same of one that was left unread.
    pub(crate) fn unread_header(&self) -> Option<Header> {
        self.header().filter(|_| self.is_large())
    }

    /// Whether it points to parts with more members than this, or with a remainder.
    pub(super) fn is_in_parts_of_more(&self, most: u64) -> bool {
        self.header().is_some_and(|header| header.len() > most || header.remainder != Remainder::None)
    }

    /// Of which type a set or hash is that lies there and was left unread for its members, or as it is moved in steps.
    pub(crate) fn unread_members(&self) -> Option<CollectionKind> {
        match &self.found {
            Found::TooMany { kind, .. } => CollectionKind::of_name(kind),
            _ => self.unread_header().map(|header| header.form.kind()),
        }
    }

    /// Leaves what it points to unread.
    pub(super) fn leave_unread(&mut self) {
        if let Found::Field { spilled, .. } = &mut self.found {
            *spilled = Spilled::Large;
        }
    }

    /// Takes what it points to for gone.
    pub(super) fn leave_for_gone(&mut self) {
        if let Found::Field { spilled, .. } = &mut self.found {
            *spilled = Spilled::Nothing;
        }
    }

    /// Takes what was said of the parts that it points to; false where it points to them no longer.
    pub(super) fn take_parts(&mut self, reply: &[u8]) -> Result<bool, Refusal> {
        let Some(kind) = self.place.as_ref().and_then(|place| place.kind.collection()) else { return Ok(false) };
        let read = Reply::parse(reply).ok().and_then(|reply| parts::read_parts(reply, kind));
        let (header, found) = match read.ok_or_else(|| Refusal::of(reply))? {
            InParts::Changed => return Ok(false),
            InParts::All { stored, collection } => (stored, Spilled::Members(collection)),
            InParts::Unreadable { stored, why } => (stored, Spilled::Unreadable(why)),
        };
        if let Found::Field { stored, spilled } = &mut self.found {
            if !header.is_empty() {
                *stored = header;
            }
            *spilled = found;
        }
        Ok(true)
    }

    /// Whether it was left unread, being large.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.found, Found::Field { spilled: Spilled::Large, .. })
    }

    /// The field's new bytes if only the expiry of its value changes, and a spilled value stays where it is. None where
    /// these bytes don't follow from the frame alone, or the value isn't kept in a field.
    pub(crate) fn stored_with_expiry(&self, expires_at_ms: Option<i64>) -> Option<Vec<u8>> {
        let mut stored = Vec::new();
        self.frame()?.body.encode(expires_at_ms, &mut stored);
        Some(stored)
    }

    /// Whether something lies there, an expired value included.
    pub(crate) fn is_stored(&self) -> bool {
        self.found != Found::Nothing
    }

    /// Whether the value that lies there would be stored as it is if it were written now: in its place or spilled, by
    /// the same codec or by none.
    pub(crate) fn is_stored_as_written_now(&self, namespace: &Namespace, logical: &[u8], value: &[u8]) -> bool {
        let (stored, in_place) = match &self.found {
            Found::Field { stored, .. } => (stored, false),
            Found::Native { value: Some(stored), .. } => (stored, true),
            _ => return true,
        };
        let Ok(frame) = Frame::decode(stored) else { return false };
        let written = namespace.codecs.written().map(|slot| slot.number);
        if let Body::Coded { slot, .. } = frame.body
            && Some(slot) == written
        {
            return true;
        }
        if in_place {
            return namespace.encode_own(logical, value) == *stored;
        }
        match namespace.encode(logical, value, frame.expires_at_ms) {
            codec::Stored::InPlace(again) => again == *stored,
            codec::Stored::Spilled { slot, .. } => match frame.body {
                Body::Spill { slot: now, .. } => now == slot,
                Body::Parts { .. } => true,
                _ => false,
            },
        }
    }

    /// Adds the checks that what was found is still there.
    fn check(&self, logical: &[u8], writes: &mut CompareAndSet) {
        let physical = self.physical(logical);
        match (&self.found, self.bucket()) {
            (Found::Field { stored, .. }, Some(place)) => {
                writes.check(&[b"HGET", &place.physical, &place.field], Some(stored));
            }
            (_, Some(place)) => writes.check(&[b"HGET", &place.physical, &place.field], None),
            (Found::Native { kind, value, expires_at_ms, expiry_is_exact }, None) => {
                let Some(value) = value else { return writes.check(&[b"TYPE", physical], Some(kind)) };
                writes.check(&[b"GET", physical], Some(value));
                check_expiry(writes, physical, *expires_at_ms, *expiry_is_exact);
            }
            (Found::TooMany { kind, .. }, None) => writes.check(&[b"TYPE", physical], Some(kind)),
            (Found::Collection { payload, expires_at_ms, expiry_is_exact, .. }, None) => {
                writes.check(&[b"DUMP", physical], Some(payload));
                check_expiry(writes, physical, *expires_at_ms, *expiry_is_exact);
            }
            (_, None) => writes.check(&[b"EXISTS", physical], Some(b"0")),
        }
    }

    /// What lies there that a script on the server can't understand, because a codec or another application wrote it.
    pub(crate) fn strange(&self) -> Option<Strange<'_>> {
        let is_coded = |body: &Body<'_>| matches!(body, Body::Coded { .. } | Body::Spill { slot: Some(_), .. });
        let stored = match &self.found {
            Found::Field { stored, .. } => stored,
            Found::Native { value: Some(stored), .. } if self.place.as_ref()?.kind.is_framed() => stored,
            _ => return None,
        };
        if self.packing().is_none() && !Frame::decode(stored).is_ok_and(|frame| is_coded(&frame.body)) {
            return None;
        }
        let means = match &self.held {
            Ok(Held::String(entry)) => Some(Cow::Borrowed(entry.value.as_slice())),
            // By its form the frame's expiry is told to be the key's, or that of the last of its fields.
            Ok(Held::Collection(collected)) => Some(Cow::Owned(collected.collection.stored(collected.expires_at_ms).0)),
            _ => None,
        };
        Some(Strange { stored, means })
    }

    /// Decodes what was found, into `held`; returns how many bytes of value codecs have made of what is stored.
    pub(super) fn decode(&mut self, logical: &[u8], env: &Env<'_>) -> usize {
        let decoded = Cell::new(0);
        self.held = self.read(logical, env, &decoded).map_err(|why| failure(logical, &why));
        decoded.get()
    }

    /// Leaves what was found as it is stored: those of other keys were too much already.
    pub(super) fn leave_undecoded(&mut self) {
        self.held = match self.found {
            Found::Nothing => Ok(Held::Nothing),
            _ => Err(TOO_MUCH_DECODED.to_owned()),
        };
    }

    /// The set or hash that lies there.
    fn collected(&self) -> Option<&Collected> {
        match &self.held {
            Ok(Held::Collection(collected)) => Some(collected),
            _ => None,
        }
    }

    /// When what was read there is to be read anew, as its frame or one of its fields expires then.
    pub(super) fn told_until(&self, now_ms: i64) -> Option<i64> {
        let members = self.collected().and_then(|collected| collected.next_member_expiry(now_ms));
        self.framed_until().into_iter().chain(members).min()
    }

    fn read(&self, logical: &[u8], env: &Env<'_>, decoded: &Cell<usize>) -> Result<Held, String> {
        let decode = |place: &Place, stored: &[u8], spilled: Option<&[u8]>| {
            let frame = Frame::decode(stored).map_err(|error| error.to_string())?;
            let value = decode(env, place.namespace, logical, &frame, spilled)?;
            if let Some(Cow::Owned(value)) = &value {
                decoded.set(value.len());
            }
            Ok::<_, String>(value.map(|value| (value.into_owned(), frame.expires_at_ms)))
        };
        let string = |value, expires_at_ms| Ok(Held::String(Entry { value, expires_at_ms }));
        match (&self.found, &self.place) {
            (Found::Nothing, _) => Ok(Held::Nothing),
            (Found::Native { value: None, kind, .. }, _) => Ok(Held::Other(kind.clone())),
            (Found::Native { value: Some(stored), expires_at_ms, .. }, Some(place)) if place.kind.is_framed() => {
                decode(place, stored, None)?.map_or(Ok(Held::Nothing), |(value, _)| string(value, *expires_at_ms))
            }
            (Found::Native { value: Some(value), expires_at_ms, .. }, _) => string(value.clone(), *expires_at_ms),
            (Found::Collection { collection, expires_at_ms, .. }, _) => {
                Ok(Held::Collection(Collected { collection: collection.clone(), expires_at_ms: *expires_at_ms }))
            }
            (Found::TooMany { why, .. }, _) => Err(why.clone()),
            (Found::Field { .. }, None) => Err("a field without a place".to_owned()),
            (Found::Field { stored, spilled }, Some(place)) => match place.kind.packing() {
                Some(packing) => string(packing.unpack(stored).map_err(|error| error.to_string())?.into_owned(), None),
                None if *spilled == Spilled::Large => Ok(Held::Unread(Unread {
                    origin: logical.to_vec(),
                    expires_at_ms: self.frame().and_then(|frame| frame.expires_at_ms),
                    collection: place.kind.collection(),
                    why: WhyUnread::Large,
                })),
                None if let Spilled::Unreadable(why) = spilled => Err(why.clone()),
                None if let Spilled::Members(collection) = spilled => Ok(Held::Collection(Collected {
                    collection: collection.clone(),
                    expires_at_ms: self.frame().and_then(|frame| frame.expires_at_ms),
                })),
                None => {
                    let spilled = if let Spilled::Read(bytes) = spilled { Some(bytes.as_slice()) } else { None };
                    // Where a spilled value is gone the server has evicted it, or lost it: the key is gone with it.
                    let Some((value, at)) = decode(place, stored, spilled)? else { return Ok(Held::Nothing) };
                    match place.kind.collection() {
                        Some(kind) => unpack(kind, &value, at).map(Held::Collection),
                        None => string(value, at),
                    }
                }
            },
        }
    }
}

/// A packed collection, where it is of the kind that its namespace has.
pub(super) fn unpack(kind: CollectionKind, value: &[u8], expires_at_ms: Option<i64>) -> Result<Collected, String> {
    let (collection, expires_at_ms) =
        Collection::read_stored(value, expires_at_ms).map_err(|error| error.to_string())?;
    if collection.kind() != kind {
        return Err(format!("a packed {} lies where the namespace has a {kind}", collection.kind()));
    }
    Ok(Collected { collection, expires_at_ms })
}

/// The value of a frame of this namespace; none where the spilled value it points to is gone. One that can't be decoded is
/// counted.
pub(crate) fn decode<'s>(
    env: &Env<'_>,
    namespace: NamespaceIndex,
    logical: &[u8],
    frame: &Frame<'s>,
    spilled: Option<&'s [u8]>,
) -> Result<Option<Cow<'s, [u8]>>, String> {
    env.layout.namespace(namespace).decode(logical, frame, spilled).map_err(|error| {
        env.stats.namespace(namespace).count_undecodable();
        error.to_string()
    })
}

/// Adds the check that a key of its own still expires when it did. A server before 7.0 doesn't say exactly when: there it is that it
/// expires at all.
fn check_expiry(writes: &mut CompareAndSet, physical: &[u8], expires_at_ms: Option<i64>, is_exact: bool) {
    match expires_at_ms {
        _ if is_exact => {
            let at = expires_at_ms.unwrap_or(-1).to_string();
            writes.check(&[b"PEXPIRETIME", physical], Some(at.as_bytes()));
        }
        None => writes.check(&[b"PTTL", physical], Some(b"-1")),
        Some(_) => writes.check_expires(physical),
    }
}

impl Key {
    /// A key and its spots by the layout.
    pub(crate) fn locate(layout: &Layout, logical: &[u8]) -> Self {
        Self::at(logical, layout.locate(logical))
    }

    /// A key that was located.
    pub(crate) fn at(logical: &[u8], located: Located) -> Self {
        let spots = match located {
            Located::Placed(place) => smallvec![Spot::at(Some(place))],
            Located::Plain | Located::Reserved => smallvec![Spot::at(None)],
            Located::Moving(moving) => smallvec![Spot::at(moving.new), Spot::at(moving.old)],
        };
        Self { logical: logical.to_vec(), spots }
    }

    /// The spots where it may lie, the one where it is written first.
    pub(crate) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// Its place, where that isn't its own name.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.spots.iter().find_map(|spot| spot.place.as_ref())
    }

    /// Which collections lie in its place, or in one of its places, where that isn't strings.
    pub(crate) fn collection(&self) -> Option<CollectionKind> {
        self.spots.iter().find_map(|spot| spot.place.as_ref()?.kind.collection())
    }

    /// Of which type it is, where it is being moved and lies under its own name, with more members than were read.
    pub(crate) fn unread_own(&self) -> Option<CollectionKind> {
        let mut stored = self.spots.iter().filter(|spot| spot.is_stored());
        match (self.is_moving(), stored.next().map(|spot| &spot.found), stored.next()) {
            (true, Some(Found::TooMany { kind, .. }), None) => CollectionKind::of_name(kind),
            _ => None,
        }
    }

    /// Whether it may lie in one of two places, and must be looked for in both.
    pub(crate) fn is_moving(&self) -> bool {
        self.spots.len() > 1
    }

    /// The physical key that it is written to.
    pub(crate) fn physical(&self) -> &[u8] {
        self.spots[0].physical(&self.logical)
    }

    /// Every physical key that may hold it.
    pub(crate) fn physicals(&self) -> impl Iterator<Item = &[u8]> {
        self.spots.iter().map(|spot| spot.physical(&self.logical))
    }

    /// Its bucket's place, where it is written to one.
    pub(crate) fn bucket(&self) -> Option<&Place> {
        self.spots[0].bucket()
    }

    /// Whether it is for keyfold to publish what happens to it: it is written under another name than its own.
    pub(crate) fn is_told_by_keyfold(&self) -> bool {
        self.spots[0].place.as_ref().is_some_and(|place| place.physical.as_slice() != self.logical)
    }

    /// Whether something was found of it under another name than its own, of which nobody is told by the server.
    pub(crate) fn is_under_another_name(&self) -> bool {
        let is_another = |spot: &Spot| spot.packing().is_none() && spot.physical(&self.logical) != self.logical;
        self.spots.iter().any(|spot| spot.is_stored() && is_another(spot))
    }

    /// Whether a place where it may lie is in a bucket.
    pub(crate) fn may_be_in_bucket(&self) -> bool {
        self.spots.iter().any(|spot| spot.bucket().is_some())
    }

    /// What it holds, as a sum; none where none of its places is in a bucket, or it can't be decoded and may have moved. What is
    /// stored says enough where there is one place: a spilled value lies under a nonce that no other value ever has. What has
    /// expired is nothing, whether the sweep has been there or not.
    pub(crate) fn sum(&self, now_ms: i64) -> Option<Sum> {
        let nothing = || Some(Sum::of(std::iter::empty()));
        let is_over = |expires_at_ms: Option<i64>| expires_at_ms.is_some_and(|at| at < now_ms);
        if !self.may_be_in_bucket() {
            return None;
        }
        if !self.is_moving() {
            return match &self.spots[0].found {
                Found::Nothing => nothing(),
                Found::Field { .. } if is_over(self.field_expires_at_ms()) => nothing(),
                Found::Field { stored, .. } => Some(Sum::of([stored.as_slice()].into_iter())),
                Found::Native { .. } | Found::Collection { .. } | Found::TooMany { .. } => None,
            };
        }
        match self.held() {
            Ok(Held::Nothing) => nothing(),
            Ok(Held::String(Entry { expires_at_ms, .. }) | Held::Collection(Collected { expires_at_ms, .. }))
                if is_over(expires_at_ms) =>
            {
                nothing()
            }
            Ok(Held::String(entry)) => {
                let expiry = entry.expires_at_ms.map(i64::to_le_bytes);
                let expiry = expiry.as_ref().map_or(&[][..], |bytes| bytes);
                Some(Sum::of([entry.value.as_slice(), expiry].into_iter()))
            }
            Ok(Held::Collection(held)) => {
                let expiry = held.expires_at_ms.map(i64::to_le_bytes);
                let expiry = expiry.as_ref().map_or(&[][..], |bytes| bytes);
                Some(Sum::of([held.collection.packed().as_slice(), expiry].into_iter()))
            }
            Ok(Held::Unread(_) | Held::Other(_)) | Err(_) => None,
        }
    }

    /// The error reply where what lies in one of its spots can't be decoded.
    pub(crate) fn undecodable(&self) -> Option<&str> {
        self.spots.iter().find_map(|spot| spot.held.as_ref().err()).map(String::as_str)
    }

    /// Whether all spots that hold anything hold the same string.
    pub(crate) fn holds_the_same_everywhere(&self) -> bool {
        let mut held = self.spots.iter().filter(|spot| spot.is_stored()).map(|spot| &spot.held);
        let first = held.next();
        matches!(first, Some(Ok(Held::String(_) | Held::Collection(_)))) && held.all(|other| Some(other) == first)
    }

    /// When the bucket's value expires, where it does.
    pub(crate) fn field_expires_at_ms(&self) -> Option<i64> {
        self.spots.iter().find_map(Spot::framed_until)
    }

    /// When fields of the hash that it holds expire.
    pub(crate) fn member_expiries(&self) -> impl Iterator<Item = i64> {
        self.spots.iter().filter_map(Spot::collected).flat_map(Collected::member_expiries)
    }

    /// When something of it expires that no server knows to: all of it, and fields of a hash.
    pub(crate) fn expiries(&self) -> impl Iterator<Item = i64> {
        self.field_expires_at_ms().into_iter().chain(self.member_expiries())
    }

    /// Adds the checks that what was found is still there.
    pub(crate) fn check(&self, writes: &mut CompareAndSet) {
        for spot in &self.spots {
            spot.check(&self.logical, writes);
        }
    }

    /// What it holds, for a space: what lies in the first of its spots that holds anything.
    pub(crate) fn held(&self) -> Result<Held, String> {
        let spot = self.spots.iter().find(|spot| spot.is_stored());
        spot.map_or(Ok(Held::Nothing), |spot| spot.held.clone())
    }

    /// What it holds, for a space. A value that can't be decoded counts as one that was left unread.
    pub(crate) fn held_or_unread(&self) -> Held {
        self.held().unwrap_or_else(|error| {
            let expires_at_ms = self.spots.iter().find(|spot| spot.is_stored()).and_then(Spot::expires_at_ms);
            let why = WhyUnread::Undecodable(error);
            Held::Unread(Unread { origin: self.logical.clone(), expires_at_ms, collection: self.collection(), why })
        })
    }
}
