//! Sets and hashes of many members, which are moved in steps: a server answers nobody else while it carries out one of them.
//!
//! A key of its own becomes the *remainder* of a collection in parts by one RENAME, whatever its size, and from then on it lies where it
//! is moved to; its members come into their parts some at a time. Back, members come out of their parts into the remainder, which then
//! becomes the key. Commands find each member where it is meanwhile (`crates/core/src/exchange/parts/parts.lua`). So a move may break off
//! anywhere, and nobody's writes have to wait for it or begin again because of it.
//!
//! ```text
//! its own name ───────────────────────────────▶ handed over ─▶ drained ─▶ in parts
//! in parts elsewhere ─▶ filled: a remainder ─────▲    │
//!                                                     └─▶ its own name
//! ```

use std::collections::{BTreeSet, VecDeque};

use crate::collection::CollectionKind;
use crate::collection::parts::{Header, Remainder};
use crate::exchange::{Env, Script, send_drain, send_fill};
use crate::layout::{Layout, Located, Namespace, Place};
use crate::placement::name::PartName;
use crate::record::{NOBODY, SetsAs, part_name};
use crate::resp::{Reply, write_command};

use super::{Left, UNEXPECTED, parse};

/// A set or hash of more members is moved in steps: one that is written all the time might never else hold still for long enough.
pub const MOVED_AT_ONCE: u64 = 512;

/// The same of one that may be packed, whose bytes are known once they are read: a server answers nobody else while it reads so many.
const READ_AT_ONCE: u64 = 4096;

/// Members of a step: a server answers nobody else for some 16 µs each.
const MEMBERS_A_STEP: u64 = 256;

/// The same where others are waiting.
const MEMBERS_A_SHORT_STEP: u64 = 64;

const HAND_OVER: Script =
    Script { source: include_str!("hand_over.lua"), sha: b"6b4ba3398653f07422abd210befb7b9839b529db" };

/// Up to how many members a set or hash of this namespace is moved at once: it may be packed, with a byte a member, or less by a codec.
pub fn moved_at_once(namespace: &Namespace) -> u64 {
    let most_packed = match namespace.codecs.written() {
        _ if namespace.collection().is_none() => 0,
        Some(_) => READ_AT_ONCE,
        None => namespace.value_limit as u64,
    };
    most_packed.clamp(MOVED_AT_ONCE, READ_AT_ONCE)
}

/// One of them on its way.
#[derive(Clone, Debug)]
struct Large {
    key: Vec<u8>,
    kind: CollectionKind,
    /// The place in which it is in parts, and their nonce; none where it has its own name.
    from: Option<(Place, u64)>,
    /// Where it is to be in parts; none for its own name.
    to: Option<Place>,
    stage: Stage,
    /// A mover before has handed it over.
    was_found: bool,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Members come out of their parts, from this place in a directory on.
    Fill(u64),
    /// It comes to where it is to be.
    HandOver,
    /// Members come into their parts.
    Drain,
}

/// What came of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// It isn't the last one.
    More,
    /// The key is where it is to be.
    Moved,
    /// It isn't what it was: it is looked at once more.
    Again(Vec<u8>),
    /// Fields of it may expire, which goes only as a whole.
    Whole(Vec<u8>),
    /// It stays.
    Stays(Vec<u8>, Left),
    /// There is nothing to be moved.
    Nothing,
}

/// Those that wait for it, and the one that is on its way.
#[derive(Debug)]
pub(super) struct LargeOnes {
    waiting: VecDeque<Large>,
    /// Parts of which a remainder was come by: the name of what says whose they are, and their nonce.
    found: VecDeque<(Vec<u8>, u64)>,
    seen: BTreeSet<u64>,
    members_a_step: u64,
    /// Members that went a step.
    pub(super) members: u64,
    /// The server was made to know these scripts: that on parts, and the other.
    known: [bool; 2],
}

impl LargeOnes {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            found: VecDeque::new(),
            seen: BTreeSet::new(),
            members_a_step: MEMBERS_A_STEP,
            members: 0,
            known: [false; 2],
        }
    }

    /// Whether steps are to be short, as others wait meanwhile.
    pub(super) fn keep_short(&mut self, short: bool) {
        self.members_a_step = if short { MEMBERS_A_SHORT_STEP } else { MEMBERS_A_STEP };
    }

    /// Takes a key that is being moved; if it lies in parts, then in these of its old place.
    pub(super) fn take(&mut self, key: &[u8], kind: CollectionKind, nonce: Option<u64>, env: &Env<'_>) {
        let Located::Moving(moving) = env.layout.locate(key) else { return };
        let from = moving.old.zip(nonce);
        let stage = if from.is_some() { Stage::Fill(0) } else { Stage::HandOver };
        self.waiting.push_back(Large { key: key.to_vec(), kind, from, to: moving.new, stage, was_found: false });
    }

    /// Notes that there is a remainder of this name.
    pub(super) fn take_remainder(&mut self, name: &[u8], nonce: u64) {
        // A walk by SCAN may bring a name twice.
        if let Some(origin) = Layout::origin_of(name)
            && self.seen.insert(nonce)
        {
            self.found.push_back((part_name(origin, nonce, PartName::Owner), nonce));
        }
    }

    /// Writes what asks whose a remainder is, which has one reply; false where none was found.
    pub(super) fn ask_owner(&self, wire: &mut Vec<u8>) -> bool {
        let Some((owner, _)) = self.found.front() else { return false };
        write_command(wire, &[b"GET", owner]);
        true
    }

    /// Takes the reply. Where keys are moved away from, they are come by as keys.
    pub(super) fn take_owner(&mut self, raw: &[u8], env: &Env<'_>) -> Result<(), String> {
        let Some((owner, nonce)) = self.found.pop_front() else { return Ok(()) };
        let (Reply::Bulk(key), Some(origin)) = (parse(raw)?, Layout::origin_of(&owner)) else { return Ok(()) };
        let place = if key == NOBODY { None } else { env.layout.locate(key).place() };
        let Some(place) = place.filter(|place| place.origin == origin) else { return Ok(()) };
        let Some(kind) = place.kind.collection() else { return Ok(()) };
        let (from, to) = (Some((place.clone(), nonce)), Some(place));
        self.waiting.push_back(Large { key: key.to_vec(), kind, from, to, stage: Stage::Drain, was_found: true });
        Ok(())
    }

    /// Writes the next step, which has one reply; false where none is on its way.
    pub(super) fn send(&mut self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> bool {
        let most = self.members_a_step;
        let Some(large) = self.waiting.front() else { return false };
        let script = usize::from(large.stage == Stage::HandOver);
        let is_known = std::mem::replace(&mut self.known[script], true);
        match (large.stage, &large.from, &large.to) {
            (Stage::Fill(position), Some((from, _)), _) => send_fill(from, most, position, is_known, wire),
            (Stage::Drain, _, Some(to)) => send_drain(to, most, is_known, wire),
            _ => large.send_hand_over(env, is_known, wire),
        }
        true
    }

    /// Takes the reply to it.
    ///
    /// # Errors
    /// What the server said instead.
    pub(super) fn handle_reply(&mut self, raw: &[u8]) -> Result<Step, String> {
        let Some(large) = self.waiting.pop_front() else { return Ok(Step::Nothing) };
        if raw.starts_with(b"-NOSCRIPT") {
            // Somebody had the server forget all scripts.
            self.known = [false; 2];
            self.waiting.push_front(large);
            return Ok(Step::More);
        }
        let reply = parse(raw)?;
        let stage = match (large.stage, reply) {
            (_, Reply::Simple(b"damaged")) => {
                let why = "the directory of its parts is not what its header says".to_owned();
                return Ok(Step::Stays(large.key, Left::Damaged(why)));
            }
            (Stage::Fill(_), Reply::Array(mut numbers)) => {
                let (Some(Reply::Integer(position)), Some(Reply::Integer(left))) = (numbers.next(), numbers.next())
                else {
                    return Err(UNEXPECTED.to_owned());
                };
                self.members += self.members_a_step;
                if left > 0 { Stage::Fill(u64::try_from(position).unwrap_or(0)) } else { Stage::HandOver }
            }
            (Stage::HandOver, Reply::Simple(b"OK")) => {
                if large.to.is_none() {
                    return Ok(Step::Moved);
                }
                Stage::Drain
            }
            (Stage::HandOver, Reply::Simple(b"parts")) => Stage::Fill(0),
            (Stage::HandOver, Reply::Simple(b"taken")) => return Ok(Step::Stays(large.key, Left::InBoth)),
            (Stage::HandOver, Reply::Simple(b"expires")) => return Ok(Step::Whole(large.key)),
            (Stage::Drain, Reply::Integer(1..)) => {
                self.members += self.members_a_step;
                Stage::Drain
            }
            // All are in parts; or it was removed, or written anew, before it was drained or meanwhile.
            (Stage::Drain, Reply::Simple(_)) if large.was_found => return Ok(Step::Nothing),
            (Stage::Drain, Reply::Integer(_) | Reply::Simple(_)) => return Ok(Step::Moved),
            // It was removed, or is small by now.
            (Stage::Fill(_) | Stage::HandOver, Reply::Simple(_)) => return Ok(Step::Again(large.key)),
            _ => return Err(UNEXPECTED.to_owned()),
        };
        self.waiting.push_front(Large { stage, ..large });
        Ok(Step::More)
    }

    /// Leaves the remainder that was asked about, for the same reason as [`Self::leave`].
    pub(super) fn leave_found(&mut self) {
        self.found.pop_front();
    }

    /// Leaves the one that is on its way, as a node says that another has it, or will have.
    pub(super) fn leave(&mut self) {
        self.waiting.pop_front();
    }
}

impl Large {
    fn send_hand_over(&self, env: &mut Env<'_>, is_known: bool, wire: &mut Vec<u8>) {
        let (mut lies, mut from_owner, mut from_nonce) = (self.key.clone(), self.key.clone(), Vec::new());
        if let Some((place, nonce)) = &self.from {
            lies = part_name(place.origin, *nonce, PartName::Remainder);
            from_owner = part_name(place.origin, *nonce, PartName::Owner);
            from_nonce = nonce.to_be_bytes().to_vec();
        }
        let (mut becomes, mut to_owner, mut header) = (self.key.clone(), self.key.clone(), Vec::new());
        if let Some(place) = &self.to {
            let nonce = (env.nonces)();
            becomes = part_name(place.origin, nonce, PartName::Remainder);
            to_owner = part_name(place.origin, nonce, PartName::Owner);
            header.extend_from_slice(&nonce.to_be_bytes());
            header.extend_from_slice(&self.header(env, nonce).encode());
        }
        let spot = |place: Option<&Place>| {
            let named = place.map(|place| (place.physical.to_vec(), place.field.to_vec()));
            named.unwrap_or_else(|| (self.key.clone(), Vec::new()))
        };
        let (from_bucket, from_field) = spot(self.from.as_ref().map(|(place, _)| place));
        let (to_bucket, to_field) = spot(self.to.as_ref());
        let flag = |is_so: bool| if is_so { &b"1"[..] } else { b"0" };
        let script: [&[u8]; 2] =
            if is_known { [b"EVALSHA", HAND_OVER.sha] } else { [b"EVAL", HAND_OVER.source.as_bytes()] };
        write_command(
            wire,
            &[
                script[0],
                script[1],
                b"6",
                &lies,
                &becomes,
                &from_bucket,
                &from_owner,
                &to_bucket,
                &to_owner,
                self.kind.name().as_bytes(),
                flag(env.dialect().has_field_expiry()),
                flag(env.server.major() >= 7),
                &from_field,
                &from_nonce,
                &to_field,
                &header,
                &self.key,
            ],
        );
    }

    /// That of a collection all of whose members are in the remainder.
    fn header(&self, env: &Env<'_>, seed: u64) -> Header {
        let form = SetsAs::of(env.dialect()).form_of(self.kind);
        Header { remainder: Remainder::Drains, ..Header::new(form, seed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_scripts() {
        HAND_OVER.assert_sha();
    }
}
