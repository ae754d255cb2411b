//! A coordinator: it replaces the layout at a moment when nobody serves the one before.
//!
//! ```text
//! announce prepare ─▶ who is there? (CLIENT LIST) ─▶ all ready, or silent for too long
//!   ─▶ announce hold ─▶ all held ─▶ who is there? ─▶ close what is left of those who are silent ─▶ look again
//!   ─▶ replace the register, if the announcement and the answers still stand
//! ```
//! In a cluster all that is asked and written is at the home, but for two things. Every node is asked who is there. And
//! between the announcement of *hold* and that question the witnesses are told of the change, each confirmed; they say
//! the layout in force again when it is over.
//!
//! Who is there is asked after the announcement of *hold*: a connection that comes later looks for it before it carries
//! anything, and finds it, or finds the layout replaced.

use std::collections::{BTreeMap, BTreeSet};

use super::connections::Connection;
use super::sight::{self, Sight, carried_out};
use super::witness::{self, Changing, NO_LAYOUT};
use super::words::{Announcement, Answer, ChangeAttempt, Phase, Stance, parse};
use super::{HELD_MS, PREPARED_MS, READY_MS, Register};
use crate::admin::witness::key as witness_key;
use crate::admin::{ANSWERS_KEY, CHANGE_KEY};
use crate::exchange::CompareAndSet;
use crate::layout::Revision;
use crate::resp::{Reply, write_command};
use crate::slot::Slot;

/// Has a witness hold what it is told, and answers what it held; of something else than keyfold's that lies there, nothing.
const TELL: &[u8] = b"local held = redis.pcall('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return type(held) == 'string' and held";

/// So many announcements, of both kinds, are made before it gives up.
const MAX_ATTEMPTS: u32 = 16;

/// How long members see that a change was given up, in milliseconds.
const WITHDRAWN_MS: i64 = 300;

/// How long it waits for another coordinator to end, in milliseconds.
const TURN_MS: i64 = 15_000;

/// What a coordinator is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// Ask again in so many milliseconds.
    Wait(u64),
    /// Send [`Coordinator::announce`].
    Announce(Announcement),
    /// In a cluster only: send [`Coordinator::warn`] to all witnesses, and say [`Coordinator::warned`] once all have
    /// confirmed it. Where one doesn't, this change must not go on: withdraw it and release them.
    Warn,
    /// Send CLIENT LIST, in a cluster to every node that there is now, and hand the connections to
    /// [`Coordinator::listed`].
    List,
    /// Have the server close these connections, then say [`Coordinator::closed`].
    Close(Vec<Connection>),
    /// Send [`Coordinator::activate`].
    Activate,
    /// The new layout is in force.
    Done,
    /// It can't be.
    GiveUp(Obstacle),
}

/// Why a change can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Another coordinator is at work.
    #[error("another change of the layout is under way (`GET keyfold:{{home}}:change`); try again when it is over")]
    Busy,
    /// Somebody else replaced the layout.
    #[error(
        "the server's layout was changed by somebody else meanwhile; look at it with `keyfold layout show`, then try again"
    )]
    Changed,
    /// The register was set back.
    #[error("these keyfold processes serve a newer layout than the server says: {}; they put it back, try again then", .0.join(", "))]
    SetBack(Vec<String>),
    /// One primary has the home and all witnesses, and there are others: what it says can't be held against anything.
    #[error(
        "one node has all the slots by which others can tell that it was set back (2048, 6144, 10240, 10814 and 14336); \
         give one of them to another node"
    )]
    Together,
    /// Members never stood still together.
    #[error("these keyfold processes could not stop for a moment, as requests under way took too long: {}; try again when they are less busy", .0.join(", "))]
    NotHeld(Vec<String>),
    /// Members that may know what was lost say nothing.
    #[error("these keyfold processes don't answer, and may know a newer layout than is to be put back: {}; end those that stand still", .0.join(", "))]
    Unheard(Vec<String>),
}

/// A change under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    change: u64,
    from: Register,
    to: Register,
    base: Revision,
    /// The try under way.
    attempt: u32,
    /// When it first saw its announcement stand: who may have learned of it no earlier is given his time from then on.
    since_ms: Option<i64>,
    began_ms: Option<i64>,
    /// The try for which it was asked last who is there.
    listed_for: Option<u32>,
    connections: Vec<Connection>,
    /// Members that did not answer in time: nobody waits for them any more.
    silent: BTreeSet<Vec<u8>>,
    /// Nobody is passed over.
    hears_all: bool,
    is_done: bool,
    /// What is known of the witnesses; none of a single server, which has none.
    witnesses: Option<Warned>,
    /// What each held before it was told of this change. Where that fails it is to hold that again: it may know of a newer layout than
    /// the home, which was set back.
    held_before: BTreeMap<Slot, Option<Vec<u8>>>,
    seen: Seen,
}

/// What the witnesses of a cluster were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Warned {
    /// The last try that they were told of, at least some of them.
    told: Option<u32>,
    /// The last one that all have confirmed.
    confirmed: Option<u32>,
    /// The last one they were told of that was seen to stand after that: no other coordinator was at work meanwhile.
    standing: Option<u32>,
    /// The step that puts the new layout in force was sent, and what came of it is not known.
    is_unsure: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    now_ms: i64,
    answers: BTreeMap<Vec<u8>, Vec<u8>>,
    announcement: Option<Vec<u8>>,
    register: Register,
}

impl Coordinator {
    /// A change from what the register holds to `to`, a layout in its stored form. `base` is the newest layout that `to`
    /// takes account of. `change` is a number that is never drawn twice.
    pub fn new(change: u64, from: Register, to: &[u8], base: Revision) -> Self {
        Self {
            change,
            from,
            to: Register::of(to),
            base,
            attempt: 0,
            since_ms: None,
            began_ms: None,
            listed_for: None,
            connections: Vec::new(),
            silent: BTreeSet::new(),
            hears_all: false,
            is_done: false,
            witnesses: None,
            held_before: BTreeMap::new(),
            seen: Seen::default(),
        }
    }

    /// The same in a cluster: there are witnesses.
    #[must_use]
    pub fn in_cluster(mut self) -> Self {
        self.witnesses = Some(Warned::default());
        self
    }

    /// The same for what takes the place of a layout that was lost where no witness knows it: a member that doesn't answer may be the one
    /// that knows a newer one, and is not passed over.
    #[must_use]
    pub fn hearing_all(mut self) -> Self {
        self.hears_all = true;
        self
    }

    /// Asks the server what there is to see; how many replies that has.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        sight::ask(None, wire)
    }

    /// Takes the replies to [`Self::ask`], in RESP2.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn see(&mut self, replies: &[Vec<u8>]) -> Result<(), String> {
        let Sight { now_ms, answers: fields, announcement, register } = sight::read(replies)?;
        let mut answers = BTreeMap::new();
        if let Some(Reply::Array(mut pairs)) = fields {
            while let (Some(Reply::Bulk(member)), Some(Reply::Bulk(text))) = (pairs.next(), pairs.next()) {
                answers.insert(member.to_vec(), text.to_vec());
            }
        }
        self.began_ms.get_or_insert(now_ms);
        self.seen = Seen { now_ms, answers, announcement, register };
        let stands = self.announced_phase();
        if stands.is_some() {
            self.since_ms.get_or_insert(now_ms);
        }
        if let Some(warned) = self.witnesses.as_mut().filter(|_| stands == Some(Phase::Hold)) {
            warned.standing = warned.told;
        }
        if self.has_waited_for_ready() && !self.hears_all {
            let lagging = self.lagging_members();
            self.silent.extend(lagging);
        }
        Ok(())
    }

    /// What is to be done about what it saw.
    pub fn decide(&self) -> Course {
        let Seen { now_ms, announcement, register, .. } = &self.seen;
        if self.is_done || *register == self.to {
            return Course::Done;
        }
        if *register != self.from {
            return Course::GiveUp(Obstacle::Changed);
        }
        let announced: Option<Announcement> = announcement.as_deref().and_then(parse);
        if announcement.is_some() && announced.is_none_or(|announced| announced.attempt.change != self.change) {
            let late = !(0..=TURN_MS).contains(&(now_ms - self.began_ms.unwrap_or(*now_ms)));
            return if late { Course::GiveUp(Obstacle::Busy) } else { Course::Wait(3) };
        }
        let Some(announced) = announced.filter(|announced| announced.attempt.number == self.attempt) else {
            return self.next_phase(Phase::Prepare);
        };
        if announced.phase == Phase::Hold && self.must_warn() {
            return Course::Warn;
        }
        if self.listed_for.is_none() {
            return Course::List;
        }
        let newer = self.newer_members();
        if !newer.is_empty() {
            return Course::GiveUp(Obstacle::SetBack(self.who(&newer)));
        }
        let lagging = self.lagging_members();
        match announced.phase {
            Phase::Prepare if lagging.is_empty() => self.next_phase(Phase::Hold),
            Phase::Prepare if self.hears_all && self.has_waited_for_ready() => {
                Course::GiveUp(Obstacle::Unheard(self.who(&lagging)))
            }
            Phase::Prepare => Course::Wait(3),
            Phase::Hold if lagging.is_empty() && self.listed_for != Some(self.attempt) => Course::List,
            Phase::Hold if lagging.is_empty() => {
                let left: Vec<_> = self.connections.iter().filter(|one| !self.is_held(one)).cloned().collect();
                if left.is_empty() { Course::Activate } else { Course::Close(left) }
            }
            Phase::Hold if !self.has_stood_for(announced.attempt.hold_ms()) => Course::Wait(1),
            Phase::Hold if self.attempt < MAX_ATTEMPTS => self.next_phase(Phase::Prepare),
            Phase::Hold => Course::GiveUp(Obstacle::NotHeld(self.who(&lagging))),
        }
    }

    fn must_warn(&self) -> bool {
        self.witnesses.is_some_and(|warned| warned.confirmed != Some(self.attempt))
    }

    fn has_waited_for_ready(&self) -> bool {
        self.announced_phase() == Some(Phase::Prepare) && self.has_stood_for(READY_MS)
    }

    /// Whether it has seen its announcement stand for so long, or the clock was put back meanwhile.
    fn has_stood_for(&self, ms: i64) -> bool {
        self.since_ms.is_some_and(|since| !(0..ms).contains(&(self.seen.now_ms - since)))
    }

    fn announced_phase(&self) -> Option<Phase> {
        let announced: Option<Announcement> = self.seen.announcement.as_deref().and_then(parse);
        let attempt = ChangeAttempt { change: self.change, number: self.attempt };
        announced.filter(|announced| announced.attempt == attempt).map(|announced| announced.phase)
    }

    /// The members that know of a layout that would be lost.
    fn newer_members(&self) -> BTreeSet<Vec<u8>> {
        let is_newer = |member: &&[u8]| self.answer_of(member).is_some_and(|answer| answer.knows > self.base);
        self.connections.iter().filter_map(Connection::member).filter(is_newer).map(<[u8]>::to_vec).collect()
    }

    fn answer_of(&self, member: &[u8]) -> Option<Answer> {
        self.seen.answers.get(member).and_then(|text| parse(text))
    }

    fn stance_of(&self, member: &[u8]) -> Option<Stance> {
        self.answer_of(member).map(|answer| answer.stance)
    }

    fn is_held(&self, connection: &Connection) -> bool {
        let held = Stance::Held(ChangeAttempt { change: self.change, number: self.attempt });
        connection.member().is_some_and(|member| self.stance_of(member) == Some(held))
    }

    /// The members with connections that haven't done yet what is announced, and are waited for.
    fn lagging_members(&self) -> BTreeSet<Vec<u8>> {
        let attempt = ChangeAttempt { change: self.change, number: self.attempt };
        let Some(phase) = self.announced_phase() else { return BTreeSet::new() };
        let is_done = |member: &[u8]| match (phase, self.stance_of(member)) {
            (Phase::Prepare, Some(Stance::Ready(ready))) => ready == attempt,
            (Phase::Hold, Some(Stance::Held(held))) => held == attempt,
            _ => false,
        };
        let members = self.connections.iter().filter_map(Connection::member);
        members.filter(|member| !self.silent.contains(*member) && !is_done(member)).map(<[u8]>::to_vec).collect()
    }

    /// Who these members are, for people.
    fn who(&self, members: &BTreeSet<Vec<u8>>) -> Vec<String> {
        let name = |member: &Vec<u8>| match self.answer_of(member) {
            Some(answer) if !answer.who.is_empty() => answer.who,
            _ => member.escape_ascii().to_string(),
        };
        members.iter().map(name).collect()
    }

    fn next_phase(&self, phase: Phase) -> Course {
        let attempt = ChangeAttempt { change: self.change, number: self.attempt + 1 };
        Course::Announce(Announcement { attempt, phase, to: self.base.epoch.next() })
    }

    /// Appends the atomic step that announces; it has one reply, see [`Self::announced`].
    pub fn announce(&self, announcement: &Announcement, wire: &mut Vec<u8>) {
        let mut step = CompareAndSet::default();
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref());
        let text = announcement.to_string();
        let lasts_ms = match announcement.phase {
            Phase::Prepare => PREPARED_MS,
            Phase::Hold => HELD_MS,
        };
        step.write(&[b"SET", CHANGE_KEY, text.as_bytes(), b"PX", lasts_ms.to_string().as_bytes()]);
        step.send_with_text(wire);
    }

    /// The step came back; true where it was carried out.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn announced(&mut self, announcement: &Announcement, reply: &[u8]) -> Result<bool, String> {
        let carried_out = carried_out(reply)?;
        if carried_out {
            self.attempt = announcement.attempt.number;
            self.since_ms = None;
        }
        Ok(carried_out)
    }

    /// Appends the command by which the witness in this slot learns of the change; one reply, see [`Self::told`].
    pub fn warn(&mut self, slot: Slot, wire: &mut Vec<u8>) {
        if let Some(warned) = &mut self.witnesses {
            warned.told = Some(self.attempt);
        }
        write_command(wire, &[b"EVAL", TELL, b"1", &witness_key(slot), &self.warning(self.attempt)]);
    }

    /// Takes the reply to [`Self::warn`]: the witness in this slot has learned of the change.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn told(&mut self, slot: Slot, reply: &[u8]) -> Result<(), String> {
        let held = witness::read(reply)?;
        // Before a later try it holds what an earlier one has told it.
        self.held_before.entry(slot).or_insert(held);
        Ok(())
    }

    /// All witnesses have confirmed [`Self::warn`].
    pub fn warned(&mut self) {
        if let Some(warned) = &mut self.witnesses {
            warned.confirmed = Some(self.attempt);
        }
    }

    /// What a witness holds once it was told of this try.
    fn warning(&self, number: u32) -> Vec<u8> {
        let attempt = ChangeAttempt { change: self.change, number };
        let layout = self.to.layout.clone().unwrap_or_default();
        Changing { attempt, to: self.base.epoch.next(), layout }.to_stored()
    }

    /// Appends the atomic step by which the witness in this slot says what is in force once this change is, or holds again what it held
    /// before, where the change has failed; one reply. In that case the home is asked and seen once more before. False, and
    /// nothing is appended, where it isn't known what is in force, or what it held: whoever comes by then settles that
    /// ([`witness::tend`]).
    pub fn release(&self, slot: Slot, wire: &mut Vec<u8>) -> bool {
        let Some(warned) = self.witnesses else { return false };
        let Some(number) = warned.told else { return false };
        let stood = !warned.is_unsure && warned.standing == warned.told;
        let held = match self.held_before.get(&slot) {
            _ if self.is_done => Some(self.to.layout.as_deref().unwrap_or(NO_LAYOUT)),
            Some(held) if stood => held.as_deref(),
            _ => return false,
        };
        witness::replace(slot, Some(&self.warning(number)), held, wire);
        true
    }

    /// Takes the connections that there are, asked for since the last announcement.
    pub fn listed(&mut self, connections: Vec<Connection>) {
        self.connections = connections;
        self.listed_for = Some(self.attempt);
    }

    /// The connections that there were when it was asked last.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Those that were to be closed are said to be. Whether that is so is asked once more.
    pub fn closed(&mut self) {
        self.listed_for = Some(0);
    }

    /// Appends the atomic step that puts the new layout in force: only while the register, the announcement and every
    /// member's *held* are what was seen. It has one reply, see [`Self::activated`].
    pub fn activate(&mut self, wire: &mut Vec<u8>) {
        if let Some(warned) = &mut self.witnesses {
            warned.is_unsure = true;
        }
        let mut step = CompareAndSet::default();
        self.from.check(&mut step);
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref());
        let members: BTreeSet<&[u8]> = self.connections.iter().filter_map(Connection::member).collect();
        for member in members {
            step.check(&[b"HGET", ANSWERS_KEY, member], self.seen.answers.get(member).map(Vec::as_slice));
        }
        self.to.write(&mut step);
        step.write(&[b"DEL", CHANGE_KEY]);
        step.write(&[b"DEL", ANSWERS_KEY]);
        step.send_with_text(wire);
    }

    /// The step came back: whether the new layout is in force, whatever becomes of it later. Where it doesn't come back
    /// this change must not go on: who has stopped takes a further word of it for a proof that nothing was replaced.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn activated(&mut self, reply: &[u8]) -> Result<bool, String> {
        self.is_done = carried_out(reply)?;
        if let Some(warned) = &mut self.witnesses {
            warned.is_unsure = false;
        }
        Ok(self.is_done)
    }

    /// Appends the atomic step by which a coordinator that gives up lets the members go on; one reply. It announces
    /// *prepare*, for a moment: members that have said *held* see that nothing was changed.
    pub fn withdraw(&self, wire: &mut Vec<u8>) {
        let announced: Option<Announcement> = self.seen.announcement.as_deref().and_then(parse);
        let own = announced.is_some_and(|announced| announced.attempt.change == self.change);
        let Course::Announce(last) = self.next_phase(Phase::Prepare) else { return };
        let mut step = CompareAndSet::default();
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref().filter(|_| own));
        if own {
            let (text, lasts_ms) = (last.to_string(), WITHDRAWN_MS.to_string());
            step.write(&[b"SET", CHANGE_KEY, text.as_bytes(), b"PX", lasts_ms.as_bytes()]);
        }
        step.send_with_text(wire);
    }

    /// Appends the command by which the server closes a connection; it has one reply.
    pub fn close(connection: &Connection, wire: &mut Vec<u8>) {
        let id = connection.id.to_string();
        write_command(wire, &[b"CLIENT", b"KILL", b"ID", id.as_bytes(), b"SKIPME", b"yes"]);
    }
}

#[cfg(test)]
mod tests;
