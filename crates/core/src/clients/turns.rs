//! Whose turn it is to write a key that many clients write at once.
//!
//! A write that is worked out is one round trip to read and one to write, if nothing has changed. Of many on one key one
//! succeeds each time and all others begin again: with their number the work grows as its square, and some never succeed.
//! So once one has had to begin again, those that come later on its key wait in a line, and begin one after the other.
//!
//! As long as clients write a key without a pause its line doesn't end, though it may long be one for which nobody has to begin again:
//! a set that has come to lie in parts, a counter whose namespace has been moved. So whoever ends in one round trip has twice as many begin
//! at a time as before, and who was worked out, or had to begin again, one.
//!
//! ```text
//! hash of the key ─▶ line: under way [ … ] at most so many   offered to [ ticket ]   waiting [ ticket, ticket, … ]
//! ```
//! What is under way ends whatever others wait for, so no two lines wait for each other. A turn or a place in a line that
//! is dropped, by a client that has gone for one, is passed on.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// A key where lines are looked for: two keys of one hash wait for each other, and that is all.
pub(crate) type KeyHash = u64;

/// The hash of a key.
pub(crate) fn hash_of(key: &[u8]) -> KeyHash {
    let mut hasher = DefaultHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The lines of one proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many lines there are: most often none, which is seen without the lock.
    count: AtomicUsize,
    lines: Mutex<HashMap<KeyHash, Line, BuildHasherDefault<DefaultHasher>>>,
}

#[derive(Debug)]
struct Line {
    /// Writes that have begun.
    under_way: usize,
    /// So many may be under way before another begins.
    at_once: usize,
    /// Whose turn it is, where they haven't taken it yet.
    offered: Option<u64>,
    waiting: VecDeque<(u64, Waker)>,
    last_ticket: u64,
}

/// No line has more begin at a time.
const MOST_AT_ONCE: usize = 1 << 16;

impl Line {
    fn new() -> Self {
        Self { under_way: 0, at_once: 1, offered: None, waiting: VecDeque::new(), last_ticket: 0 }
    }

    /// Offers the turn to the next, where it is free; whether anybody has it or waits for it.
    fn pass_on(&mut self) -> bool {
        if self.under_way < self.at_once
            && self.offered.is_none()
            && let Some((ticket, waker)) = self.waiting.pop_front()
        {
            self.offered = Some(ticket);
            waker.wake();
        }
        self.under_way > 0 || self.offered.is_some()
    }
}

/// A write under way on a key that has a line. It ends where this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    key: KeyHash,
    outcome: Outcome,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It has not, or was not begun.
    Unknown,
    /// In one round trip, whatever others did to its key.
    AtOnce,
    /// It was worked out, which nobody may do beside it.
    WorkedOut,
}

/// A place in a line, or an offer that isn't taken yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    turns: Turns,
    key: KeyHash,
    number: u64,
}

/// Whether a write may begin.
#[derive(Debug)]
pub(crate) enum Admission {
    /// Its key has no line.
    Free,
    /// It is its turn.
    Turn(Turn),
    /// It waits; the waker is called when it is worth another try, with this ticket.
    Wait(Ticket),
}

impl Turns {
    /// Whether any key has a line.
    pub(crate) fn are_any(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) > 0
    }

    /// A write that has begun already has to begin again: there is a line from now on.
    pub(crate) fn join(&self, key: KeyHash) -> Turn {
        let mut lines = self.lines();
        let line = lines.entry(key).or_insert_with(|| self.new_line());
        (line.under_way, line.at_once) = (line.under_way + 1, 1);
        drop(lines);
        self.turn(key)
    }

    fn turn(&self, key: KeyHash) -> Turn {
        Turn { turns: self.clone(), key, outcome: Outcome::Unknown }
    }

    /// Asks whether a write on this key may begin, with the ticket that it was given where it asked before.
    pub(crate) fn ask(&self, key: KeyHash, ticket: Option<Ticket>, waker: &Waker) -> Admission {
        // That of another key is given back only once the lock is free.
        let (ticket, _other) = match ticket {
            Some(ticket) if ticket.key == key => (Some(ticket), None),
            other => (None, other),
        };
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(&key) else {
            drop(lines);
            return Admission::Free;
        };
        let number = ticket.as_ref().map(|ticket| ticket.number);
        let is_first = line.waiting.is_empty() || line.offered == number;
        if line.under_way < line.at_once && (line.offered.is_none() || line.offered == number) && is_first {
            line.offered = None;
            line.under_way += 1;
            line.pass_on();
            drop(lines);
            return Admission::Turn(self.turn(key));
        }
        if let Some(ticket) = ticket {
            // One that has to begin again joined before the offer was taken: it is made anew once that one is done.
            if line.offered.take_if(|offered| *offered == ticket.number).is_some() {
                line.waiting.push_front((ticket.number, waker.clone()));
            }
            let place = line.waiting.iter_mut().find(|(number, _)| *number == ticket.number);
            place.into_iter().for_each(|(_, known)| known.clone_from(waker));
            drop(lines);
            return Admission::Wait(ticket);
        }
        line.last_ticket += 1;
        let number = line.last_ticket;
        line.waiting.push_back((number, waker.clone()));
        drop(lines);
        Admission::Wait(Ticket { turns: self.clone(), key, number })
    }

    fn new_line(&self) -> Line {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        Line::new()
    }

    /// Changes a line, and goes on from there.
    fn change(&self, key: KeyHash, change: impl FnOnce(&mut Line)) {
        let mut lines = self.lines();
        if let Some(line) = lines.get_mut(&key) {
            change(line);
            if !line.pass_on() {
                lines.remove(&key);
                self.0.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<KeyHash, Line, BuildHasherDefault<DefaultHasher>>> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The key whose line it is in.
    pub(crate) fn key(&self) -> KeyHash {
        self.key
    }
}

impl Turn {
    /// The write has to begin again: no other begins beside it.
    pub(crate) fn begin_again(&self) {
        self.turns.change(self.key, |line| line.at_once = 1);
    }

    /// The write has ended: in one round trip, or else it was worked out.
    pub(crate) fn note_end(&mut self, at_once: bool) {
        self.outcome = if at_once { Outcome::AtOnce } else { Outcome::WorkedOut };
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.change(self.key, |line| {
            line.under_way -= 1;
            line.at_once = match self.outcome {
                Outcome::Unknown => line.at_once,
                Outcome::AtOnce => (line.at_once * 2).min(MOST_AT_ONCE),
                Outcome::WorkedOut => 1,
            };
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.turns.change(self.key, |line| {
            line.waiting.retain(|(number, _)| *number != self.number);
            line.offered.take_if(|offered| *offered == self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::mem;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// One who wants to write a key.
    struct Writer {
        bell: Arc<Bell>,
        ticket: Option<Ticket>,
    }

    impl Writer {
        fn new() -> Self {
            Self { bell: Arc::default(), ticket: None }
        }

        /// The turn, where it is theirs.
        fn ask(&mut self, turns: &Turns) -> Option<Turn> {
            self.bell.0.store(false, Ordering::Relaxed);
            match turns.ask(7, self.ticket.take(), &Waker::from(Arc::clone(&self.bell))) {
                Admission::Free => panic!("there is a line"),
                Admission::Turn(turn) => Some(turn),
                Admission::Wait(ticket) => {
                    self.ticket = Some(ticket);
                    None
                }
            }
        }

        fn was_woken(&self) -> bool {
            self.bell.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn without_a_line_all_begin_and_a_line_ends_with_its_last() {
        let turns = Turns::default();
        assert!(matches!(turns.ask(7, None, Waker::noop()), Admission::Free) && !turns.are_any());
        let (first, second) = (turns.join(7), turns.join(7));
        assert!(turns.are_any() && matches!(turns.ask(8, None, Waker::noop()), Admission::Free));
        drop(first);
        assert!(turns.are_any());
        drop(second);
        assert!(!turns.are_any());
    }

    #[test]
    fn those_who_wait_begin_one_after_the_other_in_their_order() {
        let turns = Turns::default();
        let (one, other) = (turns.join(7), turns.join(7));
        let (mut a, mut b, mut c) = (Writer::new(), Writer::new(), Writer::new());
        assert!(a.ask(&turns).is_none() && b.ask(&turns).is_none());
        drop(one);
        assert!(!a.was_woken(), "another is under way still");
        drop(other);
        assert!(a.was_woken() && !b.was_woken());
        assert!(b.ask(&turns).is_none() && c.ask(&turns).is_none(), "it is offered to another");
        let turn = a.ask(&turns).unwrap();
        assert!(a.ask(&turns).is_none(), "who comes again waits behind the others");
        drop(turn);
        drop(b.ask(&turns).unwrap());
        drop(c.ask(&turns).unwrap());
        drop(a.ask(&turns).unwrap());
        assert!(!turns.are_any());
    }

    #[test]
    fn an_offer_that_came_too_late_is_made_again() {
        let turns = Turns::default();
        let one = turns.join(7);
        let (mut a, mut b) = (Writer::new(), Writer::new());
        assert!(a.ask(&turns).is_none() && b.ask(&turns).is_none());
        drop(one);
        assert!(a.was_woken());
        let other = turns.join(7);
        assert!(a.ask(&turns).is_none() && b.ask(&turns).is_none(), "another is under way");
        drop(other);
        assert!(a.was_woken() && !b.was_woken());
        drop(a.ask(&turns).unwrap());
        assert!(b.was_woken());
    }

    #[test]
    fn those_that_end_in_one_round_trip_soon_wait_no_more() {
        let turns = Turns::default();
        let first = turns.join(7);
        let mut writers: Vec<Writer> = (0..16).map(|_| Writer::new()).collect();
        assert!(writers.iter_mut().all(|writer| writer.ask(&turns).is_none()));
        drop(first);
        let mut begun = |at_once: &[bool]| {
            let asked = writers.iter_mut().filter(|writer| writer.ticket.is_some()).map(|writer| writer.ask(&turns));
            let mut under_way: Vec<Turn> = asked.flatten().collect();
            let count = under_way.len();
            under_way.iter_mut().zip(at_once.iter().cycle()).for_each(|(turn, at_once)| turn.note_end(*at_once));
            count
        };
        assert_eq!([begun(&[true]), begun(&[true])], [1, 2]);
        // The last of them was worked out.
        assert_eq!([begun(&[true, false]), begun(&[true])], [8, 1]);
        assert_eq!(begun(&[true]), 2);
    }

    #[test]
    fn who_goes_away_passes_the_turn_on() {
        let turns = Turns::default();
        let turn = turns.join(7);
        let mut writers: Vec<Writer> = (0..4).map(|_| Writer::new()).collect();
        assert!(writers.iter_mut().all(|writer| writer.ask(&turns).is_none()));
        drop(writers.remove(1));
        drop(turn);
        assert!(writers[0].was_woken());
        drop(writers.remove(0));
        assert!(writers[0].was_woken(), "the offer is passed on");
        let turn = writers[0].ask(&turns).unwrap();
        drop(writers);
        drop(turn);
        assert!(!turns.are_any());
    }

    /// Where a writer of the property test is.
    #[derive(Default)]
    enum At {
        #[default]
        Start,
        /// It waits, and asks again only once it is woken.
        Waiting(Ticket),
        /// It began while there was no line.
        Free,
        /// It is under way in the line.
        Under(Turn),
        Done,
    }

    /// Has a writer go on as far as it can; `begins_again` is whether one that began freely finds the key changed.
    fn go_on(at: At, key: KeyHash, bell: &Arc<Bell>, begins_again: bool, turns: &Turns) -> At {
        let ticket = match at {
            At::Free if begins_again => return At::Under(turns.join(key)),
            At::Free | At::Done => return At::Done,
            At::Under(turn) => {
                drop(turn);
                return At::Done;
            }
            At::Waiting(ticket) if !bell.0.swap(false, Ordering::Relaxed) => return At::Waiting(ticket),
            At::Waiting(ticket) => Some(ticket),
            At::Start => None,
        };
        match turns.ask(key, ticket, &Waker::from(Arc::clone(bell))) {
            Admission::Free => At::Free,
            Admission::Turn(turn) => At::Under(turn),
            Admission::Wait(ticket) => At::Waiting(ticket),
        }
    }

    proptest! {
        /// Whatever the order of what they do, nobody who waits is forgotten.
        #[test]
        fn all_end(steps in vec((0..8_usize, 0..8_u8), 0..200)) {
            let turns = Turns::default();
            let mut writers: Vec<(At, Arc<Bell>)> = (0..8).map(|_| Default::default()).collect();
            let key = |writer: usize| writer as KeyHash % 3 / 2;
            for (writer, choice) in steps {
                let (at, bell) = &mut writers[writer];
                *at = match (choice, mem::take(at)) {
                    // Its client has gone.
                    (0, At::Waiting(_)) => At::Done,
                    // It writes once more.
                    (1, At::Done) => At::Start,
                    (_, at) => go_on(at, key(writer), bell, choice > 3, &turns),
                };
            }
            for _ in 0..100 {
                for (writer, (at, bell)) in writers.iter_mut().enumerate() {
                    *at = go_on(mem::take(at), key(writer), bell, false, &turns);
                }
            }
            prop_assert!(writers.iter().all(|(at, _)| matches!(at, At::Done)) && !turns.are_any());
        }
    }

    #[test]
    fn a_ticket_of_another_key_is_given_back() {
        let turns = Turns::default();
        let (_seven, _eight) = (turns.join(7), turns.join(8));
        let Admission::Wait(ticket) = turns.ask(7, None, Waker::noop()) else { panic!("it waits") };
        assert!(matches!(turns.ask(8, Some(ticket), Waker::noop()), Admission::Wait(_)));
        assert_eq!(turns.lines()[&7].waiting.len(), 0);
    }
}
