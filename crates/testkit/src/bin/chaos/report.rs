//! What a client met: answers, errors, and what is to be judged when all is over.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use keyfold_testkit::reply::Value;
use serde::{Deserialize, Serialize};

use crate::asker::{Asker, Outcome};
use crate::history::{Claim, History, Span, Verdict};

/// What a client met.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) answers: u64,
    /// Writes that were acknowledged.
    pub(crate) acked: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    #[serde(skip)]
    pub(crate) claims: Vec<Claim>,
    pub(crate) wrong: Vec<String>,
}

impl Report {
    /// Adds another client's.
    pub(crate) fn extend(&mut self, other: Self) {
        self.answers += other.answers;
        self.acked += other.acked;
        self.claims.extend(other.claims);
        self.wrong.extend(other.wrong);
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }

    pub(crate) fn note(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Right => self.answers += 1,
            Verdict::Claimed(claim) => self.claims.push(claim),
            Verdict::Wrong(wrong) => self.wrong.push(wrong),
        }
    }

    /// A write was acknowledged.
    pub(crate) fn note_write(&mut self) {
        self.acked += 1;
        self.answers += 1;
    }

    pub(crate) fn note_error(&mut self, error: &str) {
        // Addresses and keys would make each error one of its own.
        let kind: String = error.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        *self.errors.entry(kind.replace("00", "0").replace("00", "0").replace("00", "0")).or_default() += 1;
    }
}

/// Reads a key; whether an answer came.
pub(crate) fn read(asker: &mut Asker, history: &mut History, report: &mut Report) -> bool {
    let (outcome, span) = timed(|| asker.call(&history.key, &[b"GET", &history.key]));
    history.remember(format!("{span:?} GET: {}", brief(&outcome)));
    note_read(history, report, outcome, span)
}

/// Notes what a read came to; whether an answer came.
pub(crate) fn note_read(history: &mut History, report: &mut Report, outcome: Outcome, span: Span) -> bool {
    match outcome {
        Outcome::Answer(value) => {
            report.note(history.read(value.bytes(), span));
            true
        }
        Outcome::Unclear(error) => {
            report.wrong.push(format!("GET {} {span:?}: {error}", history.key.escape_ascii()));
            false
        }
        Outcome::NotDone(error) | Outcome::Maybe(error) => {
            report.note_error(&error);
            false
        }
    }
}

/// Notes what a SET came to; whether nobody knows what became of it.
pub(crate) fn note_set(history: &mut History, report: &mut Report, outcome: Outcome, span: Span, value: &[u8]) -> bool {
    match outcome {
        Outcome::Answer(Value::Simple(ok)) if ok == b"OK" => {
            history.wrote(Some(value.to_vec()), None, span);
            report.note_write();
            false
        }
        outcome => note_failure(history, report, outcome, span, Some(value.to_vec()), None),
    }
}

/// Notes that a write has no answer; whether nobody knows what became of it.
pub(crate) fn note_failure(
    history: &mut History,
    report: &mut Report,
    outcome: Outcome,
    span: Span,
    value: Option<Vec<u8>>,
    lasts_ms: Option<i64>,
) -> bool {
    let error = match outcome {
        Outcome::NotDone(error) => {
            report.note_error(&error);
            return false;
        }
        Outcome::Maybe(error) => error,
        Outcome::Unclear(error) => {
            report.wrong.push(format!("a write of {} {span:?}: {error}", history.key.escape_ascii()));
            error
        }
        Outcome::Answer(answer) => {
            report.wrong.push(format!("a write of {} {span:?} answered {answer:?}", history.key.escape_ascii()));
            "an answer of another kind".to_owned()
        }
    };
    report.note_error(&error);
    history.may_have_written(value, lasts_ms, span.0);
    true
}

pub(crate) fn brief(outcome: &Outcome) -> String {
    format!("{outcome:?}").chars().take(160).collect()
}

pub(crate) fn timed<T>(call: impl FnOnce() -> T) -> (T, Span) {
    let sent_ms = now_ms();
    let outcome = call();
    (outcome, (sent_ms, now_ms()))
}

/// The time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
