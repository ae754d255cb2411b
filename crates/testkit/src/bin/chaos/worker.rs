//! One client of the load, which knows what each answer to it must be.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keyfold_testkit::random::Random;
use keyfold_testkit::reply::Value;

use crate::asker::{Asker, Outcome};
use crate::history::{Claim, History, Span, Verdict};

/// Between two commands: two cores have a cluster, three keyfolds and a dozen clients to serve.
const PAUSE: Duration = Duration::from_millis(4);
const TEXTS: usize = 45;
const COUNTERS: usize = 15;
/// Keys in one MGET, at most.
const MOST_AT_ONCE: usize = 5;
/// Tries to read a key at the end, when all is well again.
const TRIES: usize = 50;

/// What a client met.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) answers: u64,
    /// Writes that were acknowledged.
    pub(crate) acked: u64,
    pub(crate) errors: BTreeMap<String, u64>,
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

    fn note(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Right => self.answers += 1,
            Verdict::Claimed(claim) => self.claims.push(claim),
            Verdict::Wrong(wrong) => self.wrong.push(wrong),
        }
    }

    fn note_error(&mut self, error: &str) {
        // Addresses and keys would make each error one of its own.
        let kind: String = error.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        *self.errors.entry(kind.replace("00", "0").replace("00", "0").replace("00", "0")).or_default() += 1;
    }
}

/// A client with keys of its own.
pub(crate) struct Worker {
    asker: Asker,
    random: Random,
    /// What its keys' names begin with: nothing, or what no template matches.
    head: &'static str,
    number: u64,
    named: u64,
    texts: Vec<History>,
    counters: Vec<History>,
    /// Keys that are left alone until all is quiet.
    uncertain: Vec<History>,
    pub(crate) report: Report,
}

impl Worker {
    pub(crate) fn new(asker: Asker, number: u64, head: &'static str, seed: u64) -> Self {
        let random = Random::new(Random::spread(seed) ^ number);
        let (texts, counters, uncertain) = (Vec::new(), Vec::new(), Vec::new());
        let report = Report::default();
        let mut worker = Self { asker, random, head, number, named: 0, texts, counters, uncertain, report };
        worker.texts = (0..TEXTS).map(|_| worker.fresh()).collect();
        worker.counters = (0..COUNTERS).map(|_| worker.fresh()).collect();
        worker
    }

    /// A key that nobody has had: folded by its slot, folded by its tag, or plain.
    fn fresh(&mut self) -> History {
        self.named += 1;
        let (head, id) = (self.head, self.number * 1_000_000 + self.named);
        History::of(match self.named % 3 {
            0 => format!("{head}user:{id}"),
            1 => format!("{head}cart:{{{}}}:{id}", self.number * 10 + self.named % 10),
            _ => format!("{head}plain:{id}"),
        })
    }

    /// Sends commands until told to stop.
    pub(crate) fn work(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            match self.random.below(100) {
                0..25 => self.count(),
                25..32 => self.read_many(),
                32..62 => self.read_one(),
                _ => self.write(),
            }
            thread::sleep(PAUSE);
        }
    }

    fn count(&mut self) {
        let at = self.random.index(self.counters.len());
        let history = &mut self.counters[at];
        let (outcome, span) = timed(|| self.asker.call(&history.key, &[b"INCR", &history.key]));
        history.remember(format!("{span:?} INCR: {}", brief(&outcome)));
        let next = history.next_count();
        match outcome {
            Outcome::Answer(Value::Integer(count)) => {
                let before = (count > 1).then(|| (count - 1).to_string().into_bytes());
                let verdict = history.read(before.as_deref(), span);
                history.wrote(Some(count.to_string().into_bytes()), None, span);
                self.report.acked += 1;
                self.report.note(verdict);
            }
            outcome => {
                let value = Some(next.to_string().into_bytes());
                if note_failure(history, &mut self.report, outcome, span, value, None) {
                    let fresh = self.fresh();
                    self.uncertain.push(std::mem::replace(&mut self.counters[at], fresh));
                }
            }
        }
    }

    fn read_one(&mut self) {
        let is_counter = self.random.chance(20);
        let histories = if is_counter { &mut self.counters } else { &mut self.texts };
        let at = self.random.index(histories.len());
        read(&mut self.asker, &mut histories[at], &mut self.report);
    }

    fn read_many(&mut self) {
        let mut chosen: Vec<usize> = (0..MOST_AT_ONCE).map(|_| self.random.index(self.texts.len())).collect();
        chosen.sort_unstable();
        chosen.dedup();
        if !self.asker.spans_slots() {
            chosen.iter().for_each(|at| {
                read(&mut self.asker, &mut self.texts[*at], &mut self.report);
            });
            return;
        }
        let mut args: Vec<&[u8]> = vec![b"MGET"];
        args.extend(chosen.iter().map(|at| self.texts[*at].key.as_slice()));
        let (outcome, span) = timed(|| self.asker.call(args[1], &args));
        match outcome {
            Outcome::Answer(Value::Array(values)) if values.len() == chosen.len() => {
                for (at, value) in chosen.into_iter().zip(values) {
                    let history = &mut self.texts[at];
                    history.remember(format!("{span:?} MGET: {value:?}"));
                    self.report.note(history.read(value.bytes(), span));
                }
            }
            Outcome::Answer(other) => self.report.wrong.push(format!("MGET answered {other:?}")),
            Outcome::Unclear(error) => self.report.wrong.push(format!("MGET {span:?}: {error}")),
            Outcome::NotDone(error) | Outcome::Maybe(error) => self.report.note_error(&error),
        }
    }

    fn write(&mut self) {
        let at = self.random.index(self.texts.len());
        let chosen = self.random.below(10);
        let value = (chosen > 0).then(|| format!("{}-{}", self.number, self.random.bits()).into_bytes());
        let lasts_ms = (chosen == 1).then(|| 1500 + i64::try_from(self.random.below(3000)).unwrap_or(0));
        let history = &mut self.texts[at];
        let lasts = lasts_ms.unwrap_or(0).to_string().into_bytes();
        let args: Vec<&[u8]> = match (&value, lasts_ms) {
            (None, _) => vec![b"DEL", &history.key],
            (Some(value), None) => vec![b"SET", &history.key, value],
            (Some(value), Some(_)) => vec![b"SET", &history.key, value, b"PX", &lasts],
        };
        let (outcome, span) = timed(|| self.asker.call(&history.key, &args));
        let what = value.as_deref().map_or_else(|| "DEL".into(), |value| value.escape_ascii().to_string());
        history.remember(format!("{span:?} {what} {lasts_ms:?}: {}", brief(&outcome)));
        match outcome {
            Outcome::Answer(Value::Simple(ok)) if ok == b"OK" && value.is_some() => {
                history.wrote(value, lasts_ms, span);
                (self.report.acked, self.report.answers) = (self.report.acked + 1, self.report.answers + 1);
            }
            Outcome::Answer(Value::Integer(0 | 1)) if value.is_none() => {
                history.wrote(None, None, span);
                (self.report.acked, self.report.answers) = (self.report.acked + 1, self.report.answers + 1);
            }
            outcome => {
                if note_failure(history, &mut self.report, outcome, span, value, lasts_ms) {
                    let fresh = self.fresh();
                    self.uncertain.push(std::mem::replace(&mut self.texts[at], fresh));
                }
            }
        }
    }

    /// Reads every key, now that all is quiet, and goes on from what they hold.
    pub(crate) fn check(&mut self) {
        for history in self.texts.iter_mut().chain(&mut self.counters).chain(&mut self.uncertain) {
            let is_read = (0..TRIES).any(|_| read(&mut self.asker, history, &mut self.report));
            if !is_read {
                self.report.wrong.push(format!("{} can't be read at the end", history.key.escape_ascii()));
            }
            history.forget();
        }
        self.uncertain.clear();
    }

    /// Keys that have to be there.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = &History> {
        self.texts.iter().chain(&self.counters).filter(|history| history.lasts())
    }
}

/// Reads a key; whether an answer came.
fn read(asker: &mut Asker, history: &mut History, report: &mut Report) -> bool {
    let (outcome, span) = timed(|| asker.call(&history.key, &[b"GET", &history.key]));
    history.remember(format!("{span:?} GET: {}", brief(&outcome)));
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

/// Notes that a write has no answer; whether nobody knows what became of it.
fn note_failure(
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

fn brief(outcome: &Outcome) -> String {
    format!("{outcome:?}").chars().take(160).collect()
}

fn timed(call: impl FnOnce() -> Outcome) -> (Outcome, Span) {
    let sent_ms = now_ms();
    let outcome = call();
    (outcome, (sent_ms, now_ms()))
}

/// The time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
