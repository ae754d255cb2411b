//! A coordinator: it replaces the layout at a moment when nobody serves the one before.

use super::sight::{self, Sight, carried_out};
use super::words::{Announcement, Attempt, LeaseView, Phase, Stance, parse};
use super::{ANNOUNCED_MS, CHANGE_KEY, HOLD_MS, LEASE_MS, LEASES_KEY};
use crate::exchange::CompareAndSet;
use crate::layout::{Epoch, STORED_KEY};
use crate::resp::Reply;

/// So many announcements, of both kinds, are made before it gives up.
const MAX_ATTEMPTS: u32 = 16;

/// How long members have to say that they are ready, in milliseconds: more than a lease, so that one that is gone
/// has been evicted by then.
const READY_MS: i64 = 15_000;

/// What a coordinator is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// Ask again in so many milliseconds.
    Wait(u64),
    /// Send [`Coordinator::announce`].
    Announce(Announcement),
    /// Send [`Coordinator::evict`], and where it is carried out have the server close the connections that are
    /// named for this member; only once they are closed, ask again. That comes twice for a member: its lease is
    /// replaced by a mark first, and the mark is removed when its connections are known to be closed.
    Evict(LeaseView),
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
    #[error("another change of the layout is under way (`GET keyfold:change`); try again when it is over")]
    Busy,
    /// Somebody else replaced the layout.
    #[error(
        "the server's layout was changed by somebody else meanwhile; look at it with `keyfold layout show`, then try again"
    )]
    Changed,
    /// Members don't say that they are ready.
    #[error("these keyfold processes don't answer: {}; stop them, or wait until their leases end, and try again", .0.join(", "))]
    NotReady(Vec<String>),
    /// Members never stood still together.
    #[error("these keyfold processes could not stop for a moment, as requests under way took too long: {}; try again when they are less busy", .0.join(", "))]
    NotHeld(Vec<String>),
}

/// A change under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    change: u64,
    from: Epoch,
    to: Epoch,
    /// The try under way.
    attempt: u32,
    since_ms: i64,
    began_ms: Option<i64>,
    seen: Seen,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    now_ms: i64,
    leases: Vec<LeaseView>,
    announcement: Option<Vec<u8>>,
    layout: Option<Vec<u8>>,
    epoch: Epoch,
}

impl Coordinator {
    /// A change from the epoch in force to the next. `change` is a number that is never drawn twice.
    pub fn new(change: u64, from: Epoch, to: Epoch) -> Self {
        Self { change, from, to, attempt: 0, since_ms: 0, began_ms: None, seen: Seen::default() }
    }

    /// Asks the server what there is to see; how many replies that has.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        sight::ask(None, wire)
    }

    /// Takes the replies to [`Self::ask`], in RESP2. `epoch_of` reads a layout's epoch out of its text.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn see(&mut self, replies: &[Vec<u8>], epoch_of: impl FnOnce(Option<&[u8]>) -> Epoch) -> Result<(), String> {
        let Sight { now_ms, leases: fields, announcement, layout } = sight::read(replies)?;
        let mut leases = Vec::new();
        if let Some(Reply::Array(mut pairs)) = fields {
            while let (Some(Reply::Bulk(member)), Some(Reply::Bulk(text))) = (pairs.next(), pairs.next()) {
                leases.push(LeaseView::read(member, text));
            }
        }
        let epoch = epoch_of(layout.as_deref());
        self.look(now_ms, leases, announcement, epoch);
        self.seen.layout = layout;
        Ok(())
    }

    /// The same from what is known already, for who has it otherwise.
    pub fn look(&mut self, now_ms: i64, leases: Vec<LeaseView>, announcement: Option<Vec<u8>>, epoch: Epoch) {
        self.began_ms.get_or_insert(now_ms);
        self.seen = Seen { now_ms, leases, announcement, layout: self.seen.layout.take(), epoch };
    }

    /// What is to be done about what it saw.
    pub fn decide(&self) -> Course {
        let Seen { now_ms, leases, announcement, epoch, .. } = &self.seen;
        if *epoch == self.to {
            return Course::Done;
        }
        if *epoch != self.from {
            return Course::GiveUp(Obstacle::Changed);
        }
        let announced: Option<Announcement> = announcement.as_deref().and_then(parse);
        if announcement.is_some() && announced.is_none_or(|announced| announced.attempt.change != self.change) {
            return self.unless_late(Obstacle::Busy);
        }
        if let Some(view) = leases.iter().find(|view| self.has_ended(view)) {
            return Course::Evict(view.clone());
        }
        let Some(announced) = announced.filter(|announced| announced.attempt.number == self.attempt) else {
            return self.next_phase(Phase::Prepare);
        };
        let lagging = self.lagging(&announced);
        match announced.phase {
            Phase::Prepare if lagging.is_empty() => self.next_phase(Phase::Hold),
            Phase::Prepare => self.unless_late(Obstacle::NotReady(lagging)),
            Phase::Hold if lagging.is_empty() => Course::Activate,
            Phase::Hold if (0..HOLD_MS).contains(&(now_ms - self.since_ms)) => Course::Wait(1),
            Phase::Hold if self.attempt < MAX_ATTEMPTS => self.next_phase(Phase::Prepare),
            Phase::Hold => Course::GiveUp(Obstacle::NotHeld(lagging)),
        }
    }

    /// Whether a lease is over. One that ends later than any lease can is of a clock that was put back: a member
    /// that is there writes another soon.
    fn has_ended(&self, view: &LeaseView) -> bool {
        let now_ms = self.seen.now_ms;
        let has_waited = self.elapsed_ms() > LEASE_MS;
        view.lease.as_ref().is_none_or(|lease| {
            lease.until_ms < now_ms || (has_waited && lease.until_ms > now_ms.saturating_add(LEASE_MS))
        })
    }

    fn elapsed_ms(&self) -> i64 {
        self.seen.now_ms - self.began_ms.unwrap_or(self.seen.now_ms)
    }

    /// The members that haven't done yet what is announced.
    fn lagging(&self, announced: &Announcement) -> Vec<String> {
        let done = |view: &LeaseView| {
            view.lease.as_ref().is_some_and(|lease| {
                lease.epoch == self.from
                    && match announced.phase {
                        Phase::Prepare => lease.stance == Stance::Ready(announced.attempt),
                        Phase::Hold => lease.stance == Stance::Held(announced.attempt),
                    }
            })
        };
        let lagging = self.seen.leases.iter().filter(|view| !done(view));
        lagging
            .map(|view| match &view.lease {
                Some(lease) if !lease.who.is_empty() => lease.who.clone(),
                _ => view.member.escape_ascii().to_string(),
            })
            .collect()
    }

    fn unless_late(&self, obstacle: Obstacle) -> Course {
        let late = !(0..=READY_MS).contains(&self.elapsed_ms());
        if late { Course::GiveUp(obstacle) } else { Course::Wait(3) }
    }

    fn next_phase(&self, phase: Phase) -> Course {
        let attempt = Attempt { change: self.change, number: self.attempt + 1 };
        Course::Announce(Announcement { attempt, phase, to: self.to })
    }

    /// Appends the atomic step that announces; it has one reply, see [`Self::announced`].
    pub fn announce(&self, announcement: &Announcement, wire: &mut Vec<u8>) {
        let mut step = CompareAndSet::default();
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref());
        let text = announcement.to_string();
        step.write(&[b"SET", CHANGE_KEY, text.as_bytes(), b"PX", ANNOUNCED_MS.to_string().as_bytes()]);
        step.send_with_text(wire);
    }

    /// The step came back; true where it was carried out.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn announced(&mut self, announcement: &Announcement, reply: &[u8]) -> Result<bool, String> {
        let carried_out = carried_out(reply)?;
        if carried_out {
            self.has_announced(announcement);
        }
        Ok(carried_out)
    }

    /// The announcement is made.
    pub fn has_announced(&mut self, announcement: &Announcement) {
        self.attempt = announcement.attempt.number;
        self.since_ms = self.seen.now_ms;
    }

    /// Appends the next atomic step of a member's eviction; it has one reply, 1 where it was carried out.
    ///
    /// The lease becomes a mark, so that a coordinator that dies before the member's connections are closed leaves
    /// behind that they may not be; the next one begins with them again. Only a mark of its own is removed: before
    /// it asked and saw that, it has had the connections closed.
    pub fn evict(&self, view: &LeaseView, wire: &mut Vec<u8>) {
        let (field, mark_field) = (view.field(), view.mark_field());
        let mut step = CompareAndSet::default();
        step.check(&[b"HGET", LEASES_KEY, &field], Some(&view.text));
        step.write(&[b"HDEL", LEASES_KEY, &field]);
        if view.evicted_by != Some(self.change) {
            step.write(&[b"HSET", LEASES_KEY, &mark_field, &view.mark(self.change)]);
        }
        step.send_with_text(wire);
    }

    /// Appends the atomic step that puts the new layout in force: only while every lease there is says, word for
    /// word, what was seen. It has one reply, 1 where it was carried out.
    pub fn activate(&self, layout: &[u8], wire: &mut Vec<u8>) {
        let mut step = CompareAndSet::default();
        step.check(&[b"GET", STORED_KEY], self.seen.layout.as_deref());
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref());
        step.check(&[b"HLEN", LEASES_KEY], Some(self.seen.leases.len().to_string().as_bytes()));
        for view in &self.seen.leases {
            step.check(&[b"HGET", LEASES_KEY, &view.field()], Some(&view.text));
        }
        step.write(&[b"SET", STORED_KEY, layout]);
        step.write(&[b"SET", super::COPY_KEY, layout]);
        step.write(&[b"DEL", CHANGE_KEY]);
        step.send_with_text(wire);
    }

    /// Appends the atomic step that takes the announcement back, for a coordinator that gives up; one reply.
    pub fn withdraw(&self, wire: &mut Vec<u8>) {
        let mut step = CompareAndSet::default();
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref());
        step.write(&[b"DEL", CHANGE_KEY]);
        step.send_with_text(wire);
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Lease;
    use super::*;

    const CHANGE: u64 = 7;

    fn using(until_ms: i64) -> LeaseView {
        let lease = Lease { epoch: Epoch(1), stance: Stance::Using, until_ms, who: "host".to_owned() };
        LeaseView::read(b"m", lease.to_string().as_bytes())
    }

    fn see(coordinator: &mut Coordinator, now_ms: i64, view: &LeaseView) -> Course {
        coordinator.look(now_ms, vec![view.clone()], None, Epoch(1));
        coordinator.decide()
    }

    #[test]
    fn who_is_not_heard_of_is_evicted() {
        let mut coordinator = Coordinator::new(CHANGE, Epoch(1), Epoch(2));
        assert!(matches!(see(&mut coordinator, 0, &using(0)), Course::Announce(_)));
        assert_eq!(see(&mut coordinator, 1, &using(0)), Course::Evict(using(0)));
        // The clock was put back: first the member may write another lease.
        let far = using(3_600_000);
        assert!(matches!(see(&mut coordinator, LEASE_MS, &far), Course::Announce(_)));
        assert_eq!(see(&mut coordinator, LEASE_MS + 1, &far), Course::Evict(far));
    }

    #[test]
    fn only_its_own_mark_is_removed() {
        let coordinator = Coordinator::new(CHANGE, Epoch(1), Epoch(2));
        for (view, marks) in [
            (using(0), true),
            (LeaseView::read(b"evicted:m", b"8 1 using 0 0 0 host"), true),
            (LeaseView::read(b"evicted:m", b"7 1 using 0 0 0 host"), false),
        ] {
            let mut wire = Vec::new();
            coordinator.evict(&view, &mut wire);
            let wire = wire.escape_ascii().to_string();
            assert!(wire.contains("HDEL"), "{wire}");
            assert_eq!(wire.contains("HSET"), marks, "{wire}");
            assert!(wire.contains("7 1 using 0 0 0 host"), "{wire}");
        }
    }
}
