//! Whether what clients were answered could have come from a plain server that does one command after another.
//!
//! Instead of a history it keeps all that such a server could hold by now, with the commands under way that it
//! has carried out already: one set, however the clients came to it. When a command is answered, the server must
//! have carried it out by then with this answer; where none of the possibilities is left, the history is not
//! linearizable.

use std::collections::BTreeSet;

use crate::keys::{Answer, Held, Op, alive};

/// Clients at most.
pub(crate) const CLIENTS: usize = 2;

/// A client's command in one of the possibilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Slot {
    Idle,
    Open(Op),
    Done(Answer),
}

/// What a plain server could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Possibility {
    held: Held,
    slots: [Slot; CLIENTS],
}

/// All that it could.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct History {
    now: u8,
    possible: BTreeSet<Possibility>,
}

impl History {
    /// Of a key that holds this.
    pub(crate) fn new(held: Held) -> Self {
        Self { now: 0, possible: [Possibility { held, slots: [Slot::Idle; CLIENTS] }].into() }
    }

    /// A client sends a command.
    pub(crate) fn begin(&mut self, client: usize, op: Op) {
        self.set_slot(client, Slot::Open(op));
    }

    /// Its command is answered.
    pub(crate) fn answer(&mut self, client: usize, answer: Answer) {
        self.possible = self.reachable();
        self.possible.retain(|possibility| possibility.slots[client] == Slot::Done(answer));
        self.set_slot(client, Slot::Idle);
    }

    /// Its command can't be carried out any more.
    pub(crate) fn give_up(&mut self, client: usize) {
        self.possible.retain(|possibility| matches!(possibility.slots[client], Slot::Open(_)));
        self.set_slot(client, Slot::Idle);
    }

    /// Time passes for everybody.
    pub(crate) fn tick(&mut self) {
        self.possible = self.reachable();
        self.now += 1;
        let expire = |possibility: Possibility| Possibility { held: alive(possibility.held, self.now), ..possibility };
        self.possible = self.possible.iter().copied().map(expire).collect();
    }

    /// Everybody's commands are cut off, whether they were carried out or not; by now it is this late.
    pub(crate) fn cut_off(&mut self, now: u8) {
        self.possible = self.reachable();
        (0..CLIENTS).for_each(|client| self.set_slot(client, Slot::Idle));
        while self.now < now {
            self.tick();
        }
    }

    /// Whether there is an order in which everything was answered rightly.
    pub(crate) fn is_linearizable(&self) -> bool {
        !self.possible.is_empty()
    }

    /// Whether the key could hold this now.
    pub(crate) fn allows(&self, held: Held) -> bool {
        let held = alive(held, self.now);
        self.possible.iter().any(|possibility| possibility.held == held)
            || self.reachable().iter().any(|possibility| possibility.held == held)
    }

    fn set_slot(&mut self, client: usize, slot: Slot) {
        let set = |mut possibility: Possibility| {
            possibility.slots[client] = slot;
            possibility
        };
        self.possible = self.possible.iter().copied().map(set).collect();
    }

    /// The possibilities, and what comes of them as commands under way are carried out in any order.
    fn reachable(&self) -> BTreeSet<Possibility> {
        let mut all = BTreeSet::new();
        let mut left: Vec<Possibility> = self.possible.iter().copied().collect();
        while let Some(possibility) = left.pop() {
            if !all.insert(possibility) {
                continue;
            }
            for (client, slot) in possibility.slots.iter().enumerate() {
                if let Slot::Open(op) = slot {
                    let (held, answer) = op.run(possibility.held, self.now);
                    let mut next = Possibility { held, ..possibility };
                    next.slots[client] = Slot::Done(answer);
                    left.push(next);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Stored;

    fn bare(value: u8) -> Held {
        Some(Stored { value, expires_at: None })
    }

    #[test]
    fn answers_in_some_order_are_allowed() {
        let mut history = History::new(bare(1));
        history.begin(0, Op::Incr);
        history.begin(1, Op::Get);
        assert!(history.allows(bare(1)) && history.allows(bare(2)) && !history.allows(None));
        history.answer(1, Answer::Held(Some(2)));
        history.answer(0, Answer::Held(Some(2)));
        assert!(history.is_linearizable() && history.allows(bare(2)) && !history.allows(bare(1)));
    }

    #[test]
    fn what_was_answered_before_is_not_undone() {
        let mut history = History::new(bare(1));
        history.begin(0, Op::Del);
        history.answer(0, Answer::Did(true));
        history.begin(1, Op::Get);
        assert!(!history.allows(bare(1)));
        history.answer(1, Answer::Held(Some(1)));
        assert!(!history.is_linearizable());
    }

    #[test]
    fn what_has_expired_stays_away() {
        let mut history = History::new(Some(Stored { value: 1, expires_at: Some(1) }));
        history.begin(0, Op::Expire(2));
        history.tick();
        assert!(history.allows(None) && history.allows(Some(Stored { value: 1, expires_at: Some(2) })));
        history.begin(1, Op::Get);
        history.answer(1, Answer::Held(None));
        assert!(!history.allows(Some(Stored { value: 1, expires_at: Some(2) })));
    }

    #[test]
    fn who_is_cut_off_does_not_know() {
        let mut history = History::new(Some(Stored { value: 1, expires_at: Some(2) }));
        history.begin(0, Op::Set(5));
        history.cut_off(2);
        assert!(history.allows(None) && history.allows(bare(5)) && !history.allows(bare(1)));
        history.begin(0, Op::Get);
        history.answer(0, Answer::Held(None));
        assert!(history.is_linearizable() && !history.allows(bare(5)));
    }

    #[test]
    fn a_command_that_is_given_up_did_nothing() {
        let mut history = History::new(bare(1));
        history.begin(0, Op::Set(5));
        history.give_up(0);
        assert!(history.allows(bare(1)) && !history.allows(bare(5)));
    }
}
