//! Templates as languages: do two share a key, does one lie within the other?
//!
//! Every template is exactly a regular language, and its matching is deterministic already, so it becomes
//! a small DFA, built from its last piece to its first; questions about two are a breadth-first walk of
//! both at once, whose first answer is a shortest example.
//!
//! ```text
//! int       start ─0─▶ zero            (n digits, below / at / above the first n of 2⁶³−1), n ≤ 19,
//!           start ─1…9─▶ (1, …) ─▶ …   of which 19 digits above have no state
//! int(n)    n states in a row          uuid   36 states in a row
//! hex       start ─▶ odd ⇄ even        text   one state; before a literal, the literal's KMP automaton
//! ```
//! A piece of no fixed length has no state for "done": its last states also have the transitions of the
//! state that follows, which begin with other bytes.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Piece, Template, Type};

/// A state's number. A template of 512 bytes has less than 5,000.
type State = u16;

/// From here nothing matches.
const DEAD: State = 0;
/// The key is complete, and nothing may follow.
const END: State = 1;
/// The digits of the largest int.
const MAX_INT: &[u8; 19] = b"9223372036854775807";

type Row = [State; 256];

/// A template's language.
#[derive(Clone, Debug)]
pub struct Automaton {
    rows: Vec<Row>,
    accepting: Vec<bool>,
    start: State,
}

/// How the languages of two templates lie to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// No key matches both.
    Disjoint,
    /// Every key matches both or neither.
    Same,
    /// The first is strictly within the second.
    Within,
    /// The second is strictly within the first.
    Around,
    /// Each matches keys that the other doesn't, and this key matches both.
    Crossing(Vec<u8>),
}

impl Automaton {
    /// The keys that `template` matches.
    pub fn of(template: &Template) -> Self {
        let mut automaton = Self::empty();
        let mut next = END;
        let mut pieces = template.pieces.iter().rev().peekable();
        while let Some(piece) = pieces.next() {
            next = match piece {
                Piece::Literal(literal) => {
                    if pieces.next_if(|piece| matches!(piece, Piece::Placeholder(Type::Text))).is_some() {
                        automaton.add_text_until(literal, next)
                    } else {
                        literal.iter().rev().fold(next, |next, byte| automaton.add_one_of(&[*byte], next))
                    }
                }
                Piece::Placeholder(Type::Text) => automaton.add_anything(),
                Piece::Placeholder(Type::Int) => automaton.add_int(next),
                Piece::Placeholder(Type::Hex) => automaton.add_hex(next),
                Piece::Placeholder(Type::Uuid) => automaton.add_uuid(next),
                Piece::Placeholder(Type::Padded(width)) => {
                    (0..*width).fold(next, |next, _| automaton.add_one_of(b"0123456789", next))
                }
            };
        }
        automaton.start = next;
        automaton
    }

    /// The keys that begin with one of `prefixes`, whose first bytes differ.
    pub fn of_prefixes(prefixes: &[&[u8]]) -> Self {
        let mut automaton = Self::empty();
        let all = automaton.add_anything();
        let mut start = [DEAD; 256];
        for prefix in prefixes {
            let Some((&first, rest)) = prefix.split_first() else { continue };
            start[usize::from(first)] = rest.iter().rev().fold(all, |next, byte| automaton.add_one_of(&[*byte], next));
        }
        automaton.start = automaton.add(start, false);
        automaton
    }

    /// A shortest key in both languages.
    pub fn shared(&self, other: &Self) -> Option<Vec<u8>> {
        self.search(other, |mine, theirs| mine && theirs, false)
    }

    /// A shortest key in this language that isn't in the other.
    pub fn beyond(&self, other: &Self) -> Option<Vec<u8>> {
        self.search(other, |mine, theirs| mine && !theirs, true)
    }

    /// How this language lies to the other.
    pub fn relation(&self, other: &Self) -> Relation {
        let Some(shared) = self.shared(other) else { return Relation::Disjoint };
        match (self.beyond(other).is_some(), other.beyond(self).is_some()) {
            (false, false) => Relation::Same,
            (false, true) => Relation::Within,
            (true, false) => Relation::Around,
            (true, true) => Relation::Crossing(shared),
        }
    }

    /// Walks both automata at once, breadth first, to the first pair of states that is `wanted`.
    fn search(&self, other: &Self, wanted: fn(bool, bool) -> bool, other_may_die: bool) -> Option<Vec<u8>> {
        let start = (self.start, other.start);
        let mut came_from = HashMap::from([(start, None)]);
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(pair) = queue.pop_front() {
            if wanted(self.accepts(pair.0), other.accepts(pair.1)) {
                return Some(trace(&came_from, pair));
            }
            for byte in legible_first() {
                let next = (self.step(pair.0, byte), other.step(pair.1, byte));
                if next.0 == DEAD || (next.1 == DEAD && !other_may_die) || came_from.contains_key(&next) {
                    continue;
                }
                came_from.insert(next, Some((pair, byte)));
                queue.push_back(next);
            }
        }
        None
    }

    /// Whether `key` is in the language, for tests to compare with the matcher.
    #[cfg(test)]
    pub(super) fn matches(&self, key: &[u8]) -> bool {
        self.accepts(key.iter().fold(self.start, |state, &byte| self.step(state, byte)))
    }

    fn step(&self, state: State, byte: u8) -> State {
        self.rows[usize::from(state)][usize::from(byte)]
    }

    fn accepts(&self, state: State) -> bool {
        self.accepting[usize::from(state)]
    }
}

/// Building, from the last piece to the first: each adds its states in front of `next`.
impl Automaton {
    fn empty() -> Self {
        Self { rows: vec![[DEAD; 256]; 2], accepting: vec![false, true], start: DEAD }
    }

    fn add(&mut self, row: Row, accepting: bool) -> State {
        let state = self.upcoming();
        self.rows.push(row);
        self.accepting.push(accepting);
        state
    }

    /// The number that the next added state gets.
    fn upcoming(&self) -> State {
        State::try_from(self.rows.len()).unwrap_or_else(|_| unreachable!("a template's length bounds its states"))
    }

    /// Adds a state whose transitions are those of `next`, except for the bytes that `moves` lists.
    fn add_like(&mut self, next: State, moves: impl Iterator<Item = (u8, State)>) -> State {
        let mut row = self.rows[usize::from(next)];
        for (byte, state) in moves {
            row[usize::from(byte)] = state;
        }
        self.add(row, self.accepts(next))
    }

    fn add_one_of(&mut self, bytes: &[u8], next: State) -> State {
        let mut row = [DEAD; 256];
        for byte in bytes {
            row[usize::from(*byte)] = next;
        }
        self.add(row, false)
    }

    fn add_anything(&mut self) -> State {
        let state = self.upcoming();
        self.add([state; 256], true)
    }

    /// Text up to the first occurrence of `literal`, and the literal.
    fn add_text_until(&mut self, literal: &[u8], next: State) -> State {
        let first = self.upcoming();
        let mut fallback = first;
        for (seen, &byte) in (first..).zip(literal) {
            let mut row = if seen == first { [first; 256] } else { self.rows[usize::from(fallback)] };
            let after_fallback = row[usize::from(byte)];
            row[usize::from(byte)] = seen + 1;
            self.add(row, false);
            if seen != first {
                fallback = after_fallback;
            }
        }
        // The state after the whole literal is `next`, not one of these.
        let past = self.upcoming();
        for row in &mut self.rows[usize::from(first)..] {
            for state in row.iter_mut().filter(|state| **state == past) {
                *state = next;
            }
        }
        first
    }

    fn add_int(&mut self, next: State) -> State {
        let zero = self.add_like(next, std::iter::empty());
        // The states after `len` digits, by how these compare with the first `len` of the largest int.
        let mut longer = [DEAD; 3];
        for len in (1..=MAX_INT.len()).rev() {
            let mut states = [DEAD; 3];
            for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                if len == MAX_INT.len() && order == Ordering::Greater {
                    continue;
                }
                let moves = MAX_INT.get(len).into_iter().flat_map(|limit| {
                    (b'0'..=b'9').map(move |digit| (digit, longer[slot(order.then(digit.cmp(limit)))]))
                });
                states[slot(order)] = self.add_like(next, moves);
            }
            longer = states;
        }
        let mut row = [DEAD; 256];
        row[usize::from(b'0')] = zero;
        for digit in b'1'..=b'9' {
            row[usize::from(digit)] = longer[slot(digit.cmp(&MAX_INT[0]))];
        }
        self.add(row, false)
    }

    fn add_hex(&mut self, next: State) -> State {
        let odd = self.upcoming();
        let even = odd + 1;
        self.add_one_of(HEX, even);
        self.add_like(next, HEX.iter().map(|&byte| (byte, odd)));
        self.add_one_of(HEX, odd)
    }

    fn add_uuid(&mut self, next: State) -> State {
        (0..36).rev().fold(next, |next, at| {
            let bytes: &[u8] = if matches!(at, 8 | 13 | 18 | 23) { b"-" } else { HEX };
            self.add_one_of(bytes, next)
        })
    }
}

const HEX: &[u8] = b"0123456789abcdef";

fn slot(order: Ordering) -> usize {
    match order {
        Ordering::Less => 0,
        Ordering::Equal => 1,
        Ordering::Greater => 2,
    }
}

/// All bytes, letters and digits first: the search tries them in this order, so its example is easy to read.
fn legible_first() -> impl Iterator<Item = u8> {
    let class = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' => 0,
        b'!'..=b'~' => 1,
        _ => 2,
    };
    (0..3).flat_map(move |wanted| (0..=255).filter(move |&byte| class(byte) == wanted))
}

type Pair = (State, State);

/// The bytes that led to `pair`.
fn trace(came_from: &HashMap<Pair, Option<(Pair, u8)>>, mut pair: Pair) -> Vec<u8> {
    let mut key = Vec::new();
    while let Some(&Some((before, byte))) = came_from.get(&pair) {
        key.push(byte);
        pair = before;
    }
    key.reverse();
    key
}
