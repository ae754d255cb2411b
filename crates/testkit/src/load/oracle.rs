//! What a key may hold, by the commands sent so far and the answers that came.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::answer::{bulk, integer};
use super::members::{MemberOp, Members};

/// By how much clocks may differ, in milliseconds: around a key's expiry, both answers are right.
const CLOCK_MS: i64 = 150;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its value.
    pub value: Content,
    /// When it expires, in milliseconds since 1970.
    pub expires_at_ms: Option<i64>,
}

/// A string, or members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// A string.
    Text(Vec<u8>),
    /// A set or a hash.
    Members(Members),
}

impl From<Vec<u8>> for Content {
    fn from(text: Vec<u8>) -> Self {
        Self::Text(text)
    }
}

impl Content {
    /// A string's bytes; none of members.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Members(_) => None,
        }
    }
}

/// A key is there, or it isn't.
pub type State = Option<Held>;

/// A command on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// GET
    Get,
    /// SET
    Set(Vec<u8>),
    /// SET with PXAT
    SetUntil(Vec<u8>, i64),
    /// SETNX
    SetIfAbsent(Vec<u8>),
    /// GETSET
    Swap(Vec<u8>),
    /// APPEND
    Append(Vec<u8>),
    /// INCR
    Increment,
    /// DEL
    Delete,
    /// PEXPIREAT
    ExpireAt(i64),
    /// PERSIST
    Persist,
    /// PEXPIRETIME
    ExpiryTime,
    /// A command on a set or a hash
    OnMembers(MemberOp),
}

impl Op {
    /// The command.
    pub fn args(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let number = |number: &i64| number.to_string().into_bytes();
        let (name, more): (&[u8], Vec<Vec<u8>>) = match self {
            Self::Get => (b"GET", vec![]),
            Self::Set(value) => (b"SET", vec![value.clone()]),
            Self::SetUntil(value, at) => (b"SET", vec![value.clone(), b"PXAT".to_vec(), number(at)]),
            Self::SetIfAbsent(value) => (b"SETNX", vec![value.clone()]),
            Self::Swap(value) => (b"GETSET", vec![value.clone()]),
            Self::Append(value) => (b"APPEND", vec![value.clone()]),
            Self::Increment => (b"INCR", vec![]),
            Self::Delete => (b"DEL", vec![]),
            Self::ExpireAt(at) => (b"PEXPIREAT", vec![number(at)]),
            Self::Persist => (b"PERSIST", vec![]),
            Self::ExpiryTime => (b"PEXPIRETIME", vec![]),
            Self::OnMembers(op) => return op.args(key),
        };
        [vec![name.to_vec(), key.to_vec()], more].concat()
    }

    /// Whether this is what it answers on a key to which nothing was done but `write`.
    pub fn is_answer_after(&self, write: &Self, answer: &[u8]) -> bool {
        self.apply(&write.apply(&None).0).1 == *self.in_order(answer)
    }

    /// The answer that came, as [`Self::apply`] writes it.
    fn in_order<'a>(&self, answer: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            Self::OnMembers(op) => Cow::Owned(op.in_order(answer)),
            _ => Cow::Borrowed(answer),
        }
    }

    /// What a key holds after it, and the answer in RESP2.
    fn apply(&self, state: &State) -> (State, Vec<u8>) {
        let held = |value: &[u8], expires_at_ms| Some(Held { value: value.to_vec().into(), expires_at_ms });
        let expiry = state.as_ref().and_then(|held| held.expires_at_ms);
        let text = state.as_ref().and_then(|held| held.value.text());
        match (self, state) {
            (Self::OnMembers(op), _) => {
                let none = Members::default();
                let before = match state.as_ref().map(|held| &held.value) {
                    Some(Content::Members(members)) => members,
                    _ => &none,
                };
                let (members, answer) = op.apply(before);
                let is_there = !members.is_empty();
                let value = Content::Members(members);
                (is_there.then_some(Held { value, expires_at_ms: expiry }), answer)
            }
            (Self::Get, _) => (state.clone(), bulk(text)),
            (Self::Set(value), _) => (held(value, None), b"+OK\r\n".to_vec()),
            (Self::SetUntil(value, at), _) => (held(value, Some(*at)), b"+OK\r\n".to_vec()),
            (Self::SetIfAbsent(value), None) => (held(value, None), integer(1)),
            (Self::Swap(value), _) => (held(value, None), bulk(text)),
            (Self::Append(value), None) => (held(value, None), integer(value.len() as i64)),
            (Self::Append(value), Some(_)) => {
                let value = [text.unwrap_or_default(), value].concat();
                (held(&value, expiry), integer(value.len() as i64))
            }
            (Self::Increment, None) => (held(b"1", None), integer(1)),
            (Self::Increment, Some(_)) => {
                let text = text.unwrap_or_default();
                match str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()) {
                    // Servers take no leading zeros.
                    Some(number) if number.to_string().as_bytes() == text => {
                        (held((number + 1).to_string().as_bytes(), expiry), integer(number + 1))
                    }
                    _ => (state.clone(), b"-ERR value is not an integer or out of range\r\n".to_vec()),
                }
            }
            (Self::Delete, _) => (None, integer(i64::from(state.is_some()))),
            (Self::ExpireAt(at), Some(old)) => (Some(Held { expires_at_ms: Some(*at), ..old.clone() }), integer(1)),
            (Self::Persist, Some(old)) => {
                (Some(Held { expires_at_ms: None, ..old.clone() }), integer(i64::from(expiry.is_some())))
            }
            (Self::ExpiryTime, None) => (None, integer(-2)),
            (Self::ExpiryTime, Some(_)) => (state.clone(), integer(expiry.unwrap_or(-1))),
            (Self::SetIfAbsent(_) | Self::ExpireAt(_) | Self::Persist, _) => (state.clone(), integer(0)),
        }
    }
}

/// All that a key may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Possible(BTreeSet<State>);

impl Possible {
    /// A key that is as it is.
    pub(super) fn only(state: State) -> Self {
        Self(BTreeSet::from([state]))
    }

    /// Whether it isn't there for certain.
    pub(super) fn is_absent(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The same, or it isn't there: its server keeps what it likes.
    pub(super) fn or_absent(&self) -> Self {
        Self(self.0.iter().cloned().chain([None]).collect())
    }

    /// An answer came to a command that was under way in this time; false where none of what the key may hold
    /// gives this answer.
    pub(super) fn answered(&mut self, op: &Op, answer: &[u8], (sent_ms, came_ms): (i64, i64)) -> bool {
        let answer = op.in_order(answer);
        let states = self.0.iter().flat_map(|state| seen_within(state, sent_ms, came_ms));
        let after = states.filter_map(|state| {
            let (after, expected) = op.apply(&state);
            (answer == expected).then_some(after)
        });
        let after: BTreeSet<State> = after.collect();
        let is_right = !after.is_empty();
        if is_right {
            self.0 = after;
        }
        is_right
    }

    /// No answer came: it was carried out, or it was not.
    pub(super) fn unanswered(&mut self, op: &Op) {
        let after: Vec<State> = self
            .0
            .iter()
            .flat_map(|state| {
                // It may come to be carried out when the key has expired.
                [op.apply(state).0, op.apply(&None).0]
                    .into_iter()
                    .take(if state.as_ref().is_some_and(|held| held.expires_at_ms.is_some()) { 2 } else { 1 })
            })
            .collect();
        self.0.extend(after);
    }

    /// The same of commands that are carried out together.
    pub(super) fn unanswered_all(&mut self, ops: &[Op]) {
        let after = |state: &State| ops.iter().fold(state.clone(), |state, op| op.apply(&state).0);
        let after: Vec<State> = self.0.iter().chain([&None]).map(after).collect();
        self.0.extend(after);
    }
}

/// What a command may find that is carried out in this time.
fn seen_within(state: &State, sent_ms: i64, came_ms: i64) -> Vec<State> {
    match state.as_ref().and_then(|held| held.expires_at_ms) {
        Some(at) if at < sent_ms - CLOCK_MS => vec![None],
        Some(at) if at <= came_ms + CLOCK_MS => vec![state.clone(), None],
        _ => vec![state.clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(value: &[u8]) -> State {
        Some(Held { value: value.to_vec().into(), expires_at_ms: None })
    }

    #[test]
    fn a_lost_answer_leaves_both() {
        let mut key = Possible::only(held(b"a"));
        key.unanswered(&Op::Set(b"b".to_vec()));
        assert!(key.clone().answered(&Op::Get, b"$1\r\na\r\n", (0, 1)));
        assert!(key.clone().answered(&Op::Get, b"$1\r\nb\r\n", (0, 1)));
        assert!(!key.clone().answered(&Op::Get, b"$-1\r\n", (0, 1)));
        assert!(key.answered(&Op::Append(b"c".to_vec()), b":2\r\n", (0, 1)));
        assert!(key.answered(&Op::Get, b"$2\r\nbc\r\n", (0, 1)));
        assert!(!key.answered(&Op::Get, b"$2\r\nac\r\n", (0, 1)), "the first answer told them apart");
    }

    #[test]
    fn what_a_cache_lets_go_doesnt_come_back_otherwise() {
        let key = Possible::only(held(b"a"));
        assert!(key.or_absent().answered(&Op::Get, b"$-1\r\n", (0, 1)));
        assert!(key.or_absent().answered(&Op::Get, b"$1\r\na\r\n", (0, 1)));
        assert!(!key.or_absent().answered(&Op::Get, b"$1\r\nb\r\n", (0, 1)));
        let mut gone = key.or_absent();
        assert!(!gone.is_absent() && gone.answered(&Op::Append(b"xy".to_vec()), b":2\r\n", (0, 1)));
        assert_eq!(gone, Possible::only(held(b"xy")));
        let mut lost = key.clone();
        lost.unanswered_all(&[Op::Append(b"1".to_vec()), Op::Append(b"2".to_vec())]);
        for (answer, is_right) in [("a", true), ("a12", true), ("12", true), ("a1", false), ("1", false)] {
            let answer = format!("${}\r\n{answer}\r\n", answer.len());
            assert_eq!(lost.clone().answered(&Op::Get, answer.as_bytes(), (0, 1)), is_right, "{answer}");
        }
    }

    #[test]
    fn what_is_deleted_or_expired_must_not_come_back() {
        let mut key = Possible::only(held(b"a"));
        assert!(key.answered(&Op::Delete, b":1\r\n", (0, 1)));
        assert!(!key.answered(&Op::Get, b"$1\r\na\r\n", (0, 1)));
        assert!(key.answered(&Op::SetUntil(b"b".to_vec(), 5000), b"+OK\r\n", (0, 1)));
        assert!(key.clone().answered(&Op::Get, b"$1\r\nb\r\n", (5000, 5001)));
        assert!(key.clone().answered(&Op::Get, b"$-1\r\n", (5000, 5001)));
        assert!(!key.clone().answered(&Op::Get, b"$-1\r\n", (1000, 1001)));
        assert!(!key.answered(&Op::Get, b"$1\r\nb\r\n", (6000, 6001)));
        assert!(key.answered(&Op::Increment, b":1\r\n", (6000, 6001)));
    }

    #[test]
    fn members_go_with_their_key_and_keep_its_expiry() {
        let add = |member: &[u8]| Op::OnMembers(MemberOp::Add(vec![member.to_vec()]));
        let mut key = Possible::only(None);
        assert!(key.answered(&add(b"a"), b":1\r\n", (0, 1)));
        assert!(key.answered(&Op::ExpireAt(5000), b":1\r\n", (0, 1)));
        assert!(key.answered(&add(b"b"), b":1\r\n", (0, 1)));
        assert!(key.clone().answered(&Op::ExpiryTime, b":5000\r\n", (0, 1)));
        let mut lost = key.clone();
        lost.unanswered(&Op::OnMembers(MemberOp::Remove(vec![b"a".to_vec(), b"b".to_vec()])));
        for (answer, is_right) in [(":2", true), (":0", true), (":1", false)] {
            let count = Op::OnMembers(MemberOp::Count);
            assert_eq!(lost.clone().answered(&count, format!("{answer}\r\n").as_bytes(), (0, 1)), is_right, "{answer}");
        }
        assert!(key.answered(&add(b"c"), b":1\r\n", (6000, 6001)), "it began anew");
        assert!(key.answered(&Op::OnMembers(MemberOp::Members), b"*1\r\n$1\r\nc\r\n", (6000, 6001)));
    }
}
