//! In which order steps of one slot go out while its node changes.
//!
//! Replies come in the order of their commands, so what a client sent behind a step that was led elsewhere may have been
//! carried out all the same, or may be led elsewhere too. Sent once more at once, the first would come behind the second;
//! and what the client sends next, straight to the slot's new node, before both. So:
//!
//! ```text
//! SET a 1 ─▶ MOVED     led: the slot is held. What comes for it waits; what is under way of it settles first
//! SET a 2 ─▶ MOVED     led as well: nothing of the slot is under way any more
//! SET a 3              waited
//!                      then all three go to the new node, one behind the other
//! ```
//! Where `SET a 2` was carried out, `SET a 1` can't be any more, and is answered by an error: it was not carried out.
//! Of another key than the one that was led elsewhere it may be: while a slot is moved, its keys are at two nodes. Other
//! slots notice nothing of it, and other clients' steps of the slot are only as late as that.

use std::collections::{BTreeMap, VecDeque};

use crate::slot::Slot;

/// The steps of all slots that one connection to each node carries.
#[derive(Debug)]
pub struct Turns<S> {
    under_way: Box<[u32]>,
    held: BTreeMap<Slot, Held<S>>,
}

/// A slot whose steps wait.
#[derive(Debug)]
struct Held<S> {
    led: Vec<Led<S>>,
    waiting: VecDeque<S>,
    /// Not before this time, in milliseconds.
    until_ms: i64,
}

#[derive(Debug)]
struct Led<S> {
    step: S,
    /// Something that its client sent behind it was carried out.
    is_overtaken: bool,
}

/// What is to be done with the steps of a slot, in this order, now that nothing of it is under way.
#[derive(Debug, PartialEq, Eq)]
pub struct Round<S> {
    /// To be answered by an error: they were not carried out, and it is too late for that.
    pub overtaken: Vec<S>,
    /// To be sent once more.
    pub again: Vec<S>,
    /// To be sent for the first time.
    pub waiting: VecDeque<S>,
}

impl<S> Default for Turns<S> {
    fn default() -> Self {
        Self { under_way: Slot::all().map(|_| 0).collect(), held: BTreeMap::new() }
    }
}

impl<S> Turns<S> {
    /// Whether a step of this slot may be sent now. Where not, it is to [`wait`](Self::wait).
    #[inline]
    pub fn may_go(&self, slot: Slot) -> bool {
        self.held.is_empty() || !self.held.contains_key(&slot)
    }

    /// A step of this slot is sent.
    #[inline]
    pub fn note_sent(&mut self, slot: Slot) {
        self.under_way[usize::from(slot.number())] += 1;
    }

    /// A step was answered, or is lost: it is under way no more. Those that were led elsewhere before it and that
    /// `overtakes` names can't be carried out behind it.
    #[inline]
    pub fn note_settled(&mut self, slot: Slot, overtakes: impl Fn(&S) -> bool) {
        self.end(slot);
        if self.held.is_empty() {
            return;
        }
        let led = self.held.get_mut(&slot).into_iter().flat_map(|held| &mut held.led);
        led.for_each(|led| led.is_overtaken |= overtakes(&led.step));
    }

    /// A step was led elsewhere, and is to be sent once more, though not before this time.
    pub fn note_led(&mut self, slot: Slot, step: S, until_ms: i64) {
        self.end(slot);
        let held = self.held.entry(slot).or_default();
        held.until_ms = held.until_ms.max(until_ms);
        held.led.push(Led { step, is_overtaken: false });
    }

    fn end(&mut self, slot: Slot) {
        let under_way = &mut self.under_way[usize::from(slot.number())];
        *under_way = under_way.saturating_sub(1);
    }

    /// The slot is another node's from now on: what comes for it waits until what is under way at the old one settles.
    pub fn hold(&mut self, slot: Slot) {
        if self.under_way[usize::from(slot.number())] > 0 {
            self.held.entry(slot).or_default();
        }
    }

    /// A step that may not go waits, at least until this time.
    pub fn wait(&mut self, slot: Slot, step: S, until_ms: i64) {
        let held = self.held.entry(slot).or_default();
        held.until_ms = held.until_ms.max(until_ms);
        held.waiting.push_back(step);
    }

    /// The next slot whose steps may go on at this time, with these: all that are sent are to be
    /// [noted](Self::note_sent).
    pub fn poll(&mut self, now_ms: i64) -> Option<(Slot, Round<S>)> {
        let is_due = |(slot, held): &(&Slot, &Held<S>)| {
            self.under_way[usize::from(slot.number())] == 0 && held.until_ms <= now_ms
        };
        let slot = *self.held.iter().find(is_due)?.0;
        let Held { led, waiting, .. } = self.held.remove(&slot)?;
        let (overtaken, again): (Vec<_>, Vec<_>) = led.into_iter().partition(|led| led.is_overtaken);
        let steps = |led: Vec<Led<S>>| led.into_iter().map(|led| led.step).collect();
        Some((slot, Round { overtaken: steps(overtaken), again: steps(again), waiting }))
    }

    /// When [`Self::poll`] may have something next though nothing else happens; none where it waits for replies.
    pub fn next_ms(&self) -> Option<i64> {
        let waits = |(slot, held): (&Slot, &Held<S>)| {
            (self.under_way[usize::from(slot.number())] == 0).then_some(held.until_ms)
        };
        self.held.iter().filter_map(waits).min()
    }

    /// How many slots are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

impl<S> Default for Held<S> {
    fn default() -> Self {
        Self { led: Vec::new(), waiting: VecDeque::new(), until_ms: i64::MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client and what it asks.
    type Asked = (u8, &'static str);

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    fn sent(turns: &mut Turns<Asked>, slot: Slot, steps: usize) {
        (0..steps).for_each(|_| turns.note_sent(slot));
    }

    #[test]
    fn what_was_behind_settles_before_anything_goes_again() {
        let (mut turns, slot, other) = (Turns::default(), slot(7), slot(8));
        sent(&mut turns, slot, 2);
        assert!(turns.may_go(slot));
        turns.note_led(slot, (1, "set 1"), 0);
        assert!(!turns.may_go(slot) && turns.may_go(other));
        turns.wait(slot, (1, "set 3"), 0);
        assert_eq!((turns.poll(0), turns.next_ms()), (None, None));
        turns.note_led(slot, (1, "set 2"), 0);
        let round =
            Round { overtaken: vec![], again: vec![(1, "set 1"), (1, "set 2")], waiting: [(1, "set 3")].into() };
        assert_eq!(turns.poll(0), Some((slot, round)));
        assert!(turns.may_go(slot) && turns.poll(0).is_none());
    }

    #[test]
    fn what_was_overtaken_by_its_own_client_is_not_sent_again() {
        let (mut turns, slot) = (Turns::default(), slot(7));
        sent(&mut turns, slot, 5);
        let settles = |turns: &mut Turns<Asked>, client| turns.note_settled(slot, |(other, _)| *other == client);
        settles(&mut turns, 1);
        turns.note_led(slot, (1, "one"), 0);
        turns.note_led(slot, (2, "two"), 0);
        settles(&mut turns, 1);
        turns.note_led(slot, (1, "three"), 0);
        let round = Round { overtaken: vec![(1, "one")], again: vec![(2, "two"), (1, "three")], waiting: [].into() };
        assert_eq!(turns.poll(0), Some((slot, round)));
    }

    #[test]
    fn a_slot_that_is_served_later_is_tried_later() {
        let (mut turns, slot) = (Turns::default(), slot(7));
        sent(&mut turns, slot, 1);
        turns.note_led(slot, (1, "set"), 30);
        assert_eq!((turns.poll(29), turns.next_ms()), (None, Some(30)));
        assert!(turns.poll(30).is_some());
        assert_eq!(turns.next_ms(), None);
    }

    #[test]
    fn a_slot_that_goes_to_another_node_waits_for_what_is_under_way() {
        let (mut turns, slot) = (Turns::default(), slot(7));
        turns.hold(slot);
        assert!(turns.may_go(slot), "nothing is under way");
        sent(&mut turns, slot, 1);
        turns.hold(slot);
        turns.wait(slot, (1, "set"), 0);
        assert_eq!(turns.poll(0), None);
        turns.note_settled(slot, |_| false);
        assert_eq!(turns.poll(0).unwrap().1.waiting, [(1, "set")]);
    }
}
