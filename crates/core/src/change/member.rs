//! A member: a proxy, or a tool that writes, in the eyes of a layout's change.
//!
//! | it | and sees | then it |
//! | --- | --- | --- |
//! | serves | its lease gone, or another epoch in force | stops |
//! | serves | *hold* | stops, and gives up where what is under way takes too long |
//! | serves | *prepare* | writes *ready* |
//! | serves | nothing | renews *using* from time to time |
//! | has stopped | no lease, or another epoch in force | writes *using* it, and serves it |
//! | has stopped | *hold*, and has patience | writes *held* |
//! | has stopped | anything else | writes *using* the epoch before, and serves it |
//!
//! Every write is atomic with a check that the lease and the layout are still what it has seen.

use super::sight::{self, Sight};
use super::words::{Announcement, Attempt, Lease, Phase, Stance, parse};
use super::{LEASE_MS, LEASES_KEY, PATIENCE_MS};
use crate::exchange::CompareAndSet;
use crate::layout::{Epoch, STORED_KEY};
use crate::resp::Reply;

/// How often the server is asked while nothing happens, in milliseconds.
const CALM_MS: u64 = 1_000;
/// How often while a change is announced: this is most of the pause that clients see.
const BUSY_MS: u64 = 3;

/// What a member is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing, until it asks again.
    Rest,
    /// Begin no request any more, and say by [`Member::stopped`] when none is under way, or by
    /// [`Member::go_on`] that they take too long.
    Stop,
    /// Send [`Member::write`], and say what came of it.
    Write(Lease),
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    id: Vec<u8>,
    who: String,
    /// The epoch it serves; none while it has stopped.
    serving: Option<Epoch>,
    /// Since when it has stopped, by the server's clock.
    stopped_ms: i64,
    /// Whether the server takes scripts that write though it is out of memory.
    allows_oom: bool,
    /// The try that it doesn't hold its clients back for any more.
    withdrawn: Option<Attempt>,
    /// What it saw last.
    seen: Seen,
}

/// What a member sees in the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    now_ms: i64,
    lease: Option<Vec<u8>>,
    announcement: Option<Announcement>,
    layout: Option<Vec<u8>>,
    /// The epoch of that layout; 0 where there is none.
    epoch: Epoch,
}

impl Member {
    /// A member that serves nothing yet. `id` is its own for ever; `who` says to people who it is.
    pub fn new(id: &[u8], who: &str) -> Self {
        let who = who.split_whitespace().collect();
        Self {
            id: id.to_vec(),
            who,
            serving: None,
            stopped_ms: 0,
            allows_oom: false,
            withdrawn: None,
            seen: Seen::default(),
        }
    }

    /// Says whether the server knows flags of scripts (Redis 7.0): a lease is renewed there though the server is out
    /// of memory.
    pub fn note_script_flags(&mut self, known: bool) {
        self.allows_oom = known;
    }

    /// Its id.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// The epoch it serves; none while it has stopped.
    pub fn serving(&self) -> Option<Epoch> {
        self.serving
    }

    /// The text of the layout that was in force when it looked last.
    pub fn layout_text(&self) -> Option<&[u8]> {
        self.seen.layout.as_deref()
    }

    /// In how many milliseconds it should ask again.
    pub fn rest_ms(&self) -> u64 {
        if self.serving.is_none() || self.seen.announcement.is_some() { BUSY_MS } else { CALM_MS }
    }

    /// Asks the server what there is to see; how many replies that has.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        sight::ask(Some(&self.id), wire)
    }

    /// Takes the replies to [`Self::ask`], in RESP2. `epoch_of` reads a layout's epoch out of its text: the one
    /// that counts, where the text can't be served.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn see(&mut self, replies: &[Vec<u8>], epoch_of: impl FnOnce(Option<&[u8]>) -> Epoch) -> Result<(), String> {
        let Sight { now_ms, leases, announcement, layout } = sight::read(replies)?;
        let lease = leases.and_then(Reply::bytes).map(<[u8]>::to_vec);
        let announcement = announcement.and_then(|text| parse(&text));
        let epoch = epoch_of(layout.as_deref());
        self.look(now_ms, lease, announcement, epoch);
        self.seen.layout = layout;
        Ok(())
    }

    /// The same from what is known already, for who has it otherwise.
    pub fn look(&mut self, now_ms: i64, lease: Option<Vec<u8>>, announcement: Option<Announcement>, epoch: Epoch) {
        self.seen = Seen { now_ms, lease, announcement, layout: self.seen.layout.take(), epoch };
    }

    /// What is to be done about what it saw.
    pub fn decide(&self) -> Act {
        let lease: Option<Lease> = self.seen.lease.as_deref().and_then(parse);
        let announced = self.seen.announcement.filter(|announcement| self.withdrawn != Some(announcement.attempt));
        let hold = announced.filter(|announcement| announcement.phase == Phase::Hold);
        let Some(serving) = self.serving else { return self.decide_stopped(lease.as_ref(), hold) };
        match lease {
            None => Act::Stop,
            Some(_) if self.seen.epoch != serving || hold.is_some() => Act::Stop,
            Some(lease) => {
                let stance = announced.map_or(Stance::Using, |announcement| Stance::Ready(announcement.attempt));
                self.write_unless_written(&lease, serving, stance)
            }
        }
    }

    fn decide_stopped(&self, lease: Option<&Lease>, hold: Option<Announcement>) -> Act {
        match (lease, hold) {
            (Some(lease), Some(hold)) if lease.epoch == self.seen.epoch && self.has_patience() => {
                self.write_unless_written(lease, lease.epoch, Stance::Held(hold.attempt))
            }
            _ => Act::Write(self.renewed(self.seen.epoch, Stance::Using)),
        }
    }

    /// A lease that says so already is left alone while it is young: a coordinator counts on its very words. One
    /// that is younger than can be is of a clock that was put back since.
    fn write_unless_written(&self, lease: &Lease, epoch: Epoch, stance: Stance) -> Act {
        let young = (LEASE_MS * 3 / 4 + 1..=LEASE_MS).contains(&(lease.until_ms - self.seen.now_ms));
        if young && lease.epoch == epoch && lease.stance == stance {
            return Act::Rest;
        }
        Act::Write(self.renewed(epoch, stance))
    }

    /// The try that it is asked to stop for.
    fn asked_to_stop(&self) -> Option<Attempt> {
        let announced = self.seen.announcement.filter(|announcement| announcement.phase == Phase::Hold);
        announced.map(|announcement| announcement.attempt)
    }

    fn has_patience(&self) -> bool {
        (0..PATIENCE_MS).contains(&(self.seen.now_ms - self.stopped_ms))
    }

    fn renewed(&self, epoch: Epoch, stance: Stance) -> Lease {
        Lease { epoch, stance, until_ms: self.seen.now_ms + LEASE_MS, who: self.who.clone() }
    }

    /// It begins no request any more, and none is under way.
    pub fn stopped(&mut self) {
        self.serving = None;
        self.stopped_ms = self.seen.now_ms;
    }

    /// It goes on: what was under way when it was to stop takes too long. It has not said that it had stopped.
    pub fn go_on(&mut self) {
        self.withdrawn = self.asked_to_stop();
    }

    /// Appends the atomic step that writes the lease; it has one reply, see [`Self::written`].
    pub fn write(&self, lease: &Lease, wire: &mut Vec<u8>) {
        let mut step = CompareAndSet::default();
        step.check(&[b"HGET", LEASES_KEY, &self.id], self.seen.lease.as_deref());
        step.check(&[b"GET", STORED_KEY], self.seen.layout.as_deref());
        step.write(&[b"HSET", LEASES_KEY, &self.id, lease.to_string().as_bytes()]);
        if self.allows_oom {
            step.send_when_out_of_memory(wire);
        } else {
            step.send_with_text(wire);
        }
    }

    /// The step came back: true where it was carried out, and it serves from now on what the lease says.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn written(&mut self, lease: &Lease, reply: &[u8]) -> Result<bool, String> {
        let carried_out = sight::carried_out(reply)?;
        if carried_out {
            self.wrote(lease);
        }
        Ok(carried_out)
    }

    /// The lease is written.
    pub fn wrote(&mut self, lease: &Lease) {
        self.seen.lease = Some(lease.to_string().into_bytes());
        if self.serving.is_none() && lease.stance == Stance::Using {
            self.serving = Some(lease.epoch);
            self.withdrawn = self.asked_to_stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(4);
    const HOLD: Announcement =
        Announcement { attempt: Attempt { change: 7, number: 2 }, phase: Phase::Hold, to: Epoch(5) };

    fn lease(until_ms: i64) -> Option<Vec<u8>> {
        let lease = Lease { epoch: EPOCH, stance: Stance::Using, until_ms, who: String::new() };
        Some(lease.to_string().into_bytes())
    }

    fn serving() -> Member {
        let mut member = Member::new(b"m", "");
        member.look(0, None, None, EPOCH);
        let Act::Write(lease) = member.decide() else { panic!("it registers") };
        member.wrote(&lease);
        assert_eq!(member.serving(), Some(EPOCH));
        member
    }

    #[test]
    fn a_lease_is_renewed_when_it_is_old_or_the_clock_was_put_back() {
        let mut member = serving();
        for (now_ms, rests) in [(0, true), (LEASE_MS / 8, true), (LEASE_MS / 2, false), (-3_600_000, false)] {
            member.look(now_ms, lease(LEASE_MS), None, EPOCH);
            assert_eq!(member.decide() == Act::Rest, rests, "at {now_ms}");
        }
    }

    #[test]
    fn clients_are_held_back_for_no_longer_than_its_patience() {
        for (now_ms, goes_on) in [(0, false), (PATIENCE_MS - 1, false), (PATIENCE_MS, true), (-3_600_000, true)] {
            let mut member = serving();
            member.look(0, lease(LEASE_MS), Some(HOLD), EPOCH);
            assert_eq!(member.decide(), Act::Stop);
            member.stopped();
            member.look(now_ms, lease(LEASE_MS), Some(HOLD), EPOCH);
            let Act::Write(written) = member.decide() else { panic!("it writes") };
            assert_eq!(written.stance == Stance::Using, goes_on, "at {now_ms}");
        }
    }
}
