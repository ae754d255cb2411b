//! What one key went through, and whether what is read of it fits.
//!
//! A key has one client, which waits for each answer, so that its versions follow from that client's commands alone:
//!
//! ```text
//! versions   absent ─▶ a ─▶ b ─▶ c        each acknowledged, the last also where nobody knows
//! read c     right
//! read a     b and c were acknowledged and are lost: a claim, which holds where the cluster may have lost them
//! read else  wrong: what was never written, what was refused, what is of another key
//! ```
//! What was lost must not come back, except while nodes disagree: that is a claim too.

use std::collections::VecDeque;

use keyfold_testkit::cluster::slot_of;

/// How far clocks and the expiry of a key that moves may be off, in milliseconds.
const CLOCK_MS: i64 = 1000;
/// Commands that are told where one goes wrong.
const REMEMBERED: usize = 14;

/// When a command was sent, and when its answer came, in milliseconds since 1970.
pub(crate) type Span = (i64, i64);

/// A state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    value: Option<Vec<u8>>,
    /// When it ends at the earliest and at the latest.
    ends_ms: Option<Span>,
    /// When its answer came; none where none came.
    acked_ms: Option<i64>,
}

impl Version {
    fn absent() -> Self {
        Self { value: None, ends_ms: None, acked_ms: Some(0) }
    }

    /// Whether it may be read as `found`.
    fn shows(&self, found: Option<&[u8]>, (sent_ms, came_ms): Span) -> bool {
        match (&self.value, found) {
            (Some(value), Some(found)) => {
                value == found && self.ends_ms.is_none_or(|(_, latest)| sent_ms <= latest + CLOCK_MS)
            }
            (Some(_), None) => self.ends_ms.is_some_and(|(earliest, _)| came_ms + CLOCK_MS >= earliest),
            (None, found) => found.is_none(),
        }
    }
}

/// An answer that is right only where the cluster may have lost what was acknowledged at these times.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) slot: u16,
    /// What was lost; none for a read of what others had lost before.
    pub(crate) acked_ms: Vec<i64>,
    pub(crate) seen_ms: i64,
    pub(crate) told: String,
}

/// What an answer came to.
#[derive(Debug)]
pub(crate) enum Verdict {
    Right,
    Claimed(Claim),
    Wrong(String),
}

/// A key and its versions.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) key: Vec<u8>,
    pub(crate) slot: u16,
    /// A write's answer is lost: it may be carried out at any time until all is quiet.
    pub(crate) is_uncertain: bool,
    versions: Vec<Version>,
    lost: Vec<Version>,
    past: VecDeque<String>,
}

impl History {
    /// A key that doesn't exist.
    pub(crate) fn of(key: String) -> Self {
        let key = key.into_bytes();
        let slot = slot_of(&key);
        let versions = vec![Version::absent()];
        Self { key, slot, is_uncertain: false, versions, lost: Vec::new(), past: VecDeque::new() }
    }

    /// Remembers what was said, for whoever has to find out what went wrong.
    pub(crate) fn remember(&mut self, text: String) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(text);
    }

    /// What was said of it last.
    pub(crate) fn past(&self) -> String {
        let past: Vec<&str> = self.past.iter().map(String::as_str).collect();
        past.join("\n      ")
    }

    /// It was read.
    pub(crate) fn read(&mut self, found: Option<&[u8]>, span: Span) -> Verdict {
        let current = self.versions.iter().rposition(|version| version.acked_ms.is_some()).unwrap_or(0);
        if let Some(at) = self.versions.iter().rposition(|version| version.shows(found, span)) {
            if at >= current {
                return Verdict::Right;
            }
            let lost = self.versions.split_off(at + 1);
            let acked_ms = lost.iter().filter_map(|version| version.acked_ms).collect();
            self.lost.extend(lost);
            return Verdict::Claimed(self.claim(acked_ms, found, span));
        }
        if let Some(at) = self.lost.iter().rposition(|version| version.shows(found, span)) {
            let back = self.lost.remove(at);
            self.versions.push(back);
            return Verdict::Claimed(self.claim(Vec::new(), found, span));
        }
        Verdict::Wrong(self.told(found, span))
    }

    /// A write was acknowledged.
    pub(crate) fn wrote(&mut self, value: Option<Vec<u8>>, lasts_ms: Option<i64>, (sent_ms, came_ms): Span) {
        let ends_ms = lasts_ms.map(|lasts_ms| (sent_ms + lasts_ms, came_ms + lasts_ms));
        self.versions.push(Version { value, ends_ms, acked_ms: Some(came_ms) });
    }

    /// A write may have been carried out, and may be until all is quiet.
    pub(crate) fn may_have_written(&mut self, value: Option<Vec<u8>>, lasts_ms: Option<i64>, sent_ms: i64) {
        // It may be carried out much later.
        let ends_ms = lasts_ms.map(|lasts_ms| (sent_ms, sent_ms + lasts_ms + 60_000));
        self.versions.push(Version { value, ends_ms, acked_ms: None });
        self.is_uncertain = true;
    }

    /// What it holds, were nothing lost.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.versions.last().and_then(|version| version.value.as_deref())
    }

    /// The number that the key's next INCR answers, were nothing lost.
    pub(crate) fn next_count(&self) -> i64 {
        self.last().and_then(|value| std::str::from_utf8(value).ok()?.parse::<i64>().ok()).unwrap_or(0) + 1
    }

    /// Whether it is to be there, as far as is known.
    pub(crate) fn lasts(&self) -> bool {
        self.versions.last().is_some_and(|version| version.value.is_some() && version.ends_ms.is_none())
    }

    /// All is quiet, and it has just been read: only what it holds now counts from here on.
    pub(crate) fn forget(&mut self) {
        self.lost.clear();
        let last = self.versions.split_off(self.versions.len().saturating_sub(1));
        self.versions = last;
    }

    fn claim(&self, acked_ms: Vec<i64>, found: Option<&[u8]>, span: Span) -> Claim {
        Claim { slot: self.slot, acked_ms, seen_ms: span.1, told: self.told(found, span) }
    }

    fn told(&self, found: Option<&[u8]>, (sent_ms, came_ms): Span) -> String {
        let found = found.map_or_else(|| "nothing".to_owned(), |found| found.escape_ascii().to_string());
        let (key, slot, past) = (self.key.escape_ascii(), self.slot, self.past());
        let versions: Vec<String> = self.versions.iter().rev().take(4).map(|version| format!("{version:?}")).collect();
        format!(
            "{key} (slot {slot}): found {found}, {sent_ms} to {came_ms}; {}\n      {past}",
            versions.join(" after ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[&str]) -> History {
        let mut history = History::of("k".to_owned());
        for (at, value) in values.iter().enumerate() {
            let at = i64::try_from(at).unwrap();
            history.wrote(Some(value.as_bytes().to_vec()), None, (at * 10, at * 10 + 5));
        }
        history
    }

    #[test]
    fn what_was_acknowledged_is_read() {
        let mut history = written(&["a", "b"]);
        assert!(matches!(history.read(Some(b"b"), (20, 21)), Verdict::Right));
        assert!(matches!(history.read(Some(b"x"), (20, 21)), Verdict::Wrong(_)));
    }

    #[test]
    fn what_was_before_is_a_claim_and_so_is_what_comes_back() {
        let mut history = written(&["a", "b", "c"]);
        let Verdict::Claimed(claim) = history.read(Some(b"a"), (30, 31)) else { panic!("a claim") };
        assert_eq!(claim.acked_ms, [15, 25]);
        assert!(matches!(history.read(Some(b"a"), (30, 31)), Verdict::Right));
        let Verdict::Claimed(claim) = history.read(Some(b"c"), (30, 31)) else { panic!("a claim") };
        assert!(claim.acked_ms.is_empty());
    }

    #[test]
    fn an_answer_that_is_lost_leaves_both() {
        let mut history = written(&["a"]);
        history.may_have_written(Some(b"b".to_vec()), None, 10);
        assert!(matches!(history.read(Some(b"a"), (30, 31)), Verdict::Right));
        assert!(matches!(history.read(Some(b"b"), (30, 31)), Verdict::Right));
        assert!(matches!(history.read(None, (30, 31)), Verdict::Claimed(_)));
    }

    #[test]
    fn what_expires_is_there_before_and_not_after() {
        let mut history = History::of("k".to_owned());
        history.wrote(Some(b"a".to_vec()), Some(5000), (0, 1));
        assert!(matches!(history.read(Some(b"a"), (100, 101)), Verdict::Right));
        assert!(matches!(history.read(None, (6000, 6001)), Verdict::Right));
        assert!(matches!(history.read(Some(b"a"), (7000, 7001)), Verdict::Wrong(_)));
    }
}
