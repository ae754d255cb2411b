//! One client of the load, which knows what each answer to it must be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use keyfold_testkit::random::Random;
use keyfold_testkit::reply::Value;

use crate::asker::{Asker, Outcome};
use crate::collection::Collection;
use crate::history::History;
use crate::pair::Pair;
use crate::report::{Report, brief, note_failure, note_read, note_set, read, timed};

/// Between two commands: two cores have a cluster, three keyfolds and a dozen clients to serve.
const PAUSE: Duration = Duration::from_millis(4);
const TEXTS: usize = 45;
const COUNTERS: usize = 15;
const PAIRS: usize = 6;
const COLLECTIONS: usize = 20;
/// Increments by a script.
const SCRIPT: &[u8] = b"return redis.call('INCR', KEYS[1])";
/// Commands in one pipeline, but for a read behind its write.
const PIPELINED: usize = 6;
/// Keys in one MGET, at most.
const MOST_AT_ONCE: usize = 5;
/// Tries to read a key at the end, when all is well again.
const TRIES: usize = 50;

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
    pairs: Vec<Pair>,
    collections: Vec<Collection>,
    /// Keys that are left alone until all is quiet.
    uncertain: Vec<History>,
    uncertain_pairs: Vec<Pair>,
    uncertain_collections: Vec<Collection>,
    pub(crate) report: Report,
}

impl Worker {
    pub(crate) fn new(asker: Asker, number: u64, head: &'static str, seed: u64) -> Self {
        let random = Random::new(Random::spread(seed) ^ number);
        let mut worker = Self {
            asker,
            random,
            head,
            number,
            named: 0,
            texts: Vec::new(),
            counters: Vec::new(),
            pairs: Vec::new(),
            collections: Vec::new(),
            uncertain: Vec::new(),
            uncertain_pairs: Vec::new(),
            uncertain_collections: Vec::new(),
            report: Report::default(),
        };
        worker.texts = (0..TEXTS).map(|_| worker.fresh()).collect();
        worker.counters = (0..COUNTERS).map(|_| worker.fresh()).collect();
        worker.pairs = (0..PAIRS).map(|_| worker.fresh_pair()).collect();
        worker.collections = (0..COLLECTIONS).map(|_| worker.fresh_collection()).collect();
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

    fn fresh_pair(&mut self) -> Pair {
        self.named += 1;
        Pair::of(self.head, self.number * 1_000_000 + self.named)
    }

    fn fresh_collection(&mut self) -> Collection {
        self.named += 1;
        Collection::of(self.head, self.number * 1_000_000 + self.named)
    }

    /// Sends commands until told to stop.
    pub(crate) fn work(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            match self.random.below(100) {
                0..25 => self.count(),
                25..32 => self.read_many(),
                32..37 => self.pipeline(),
                37..52 => self.read_one(),
                52..62 => self.transact(),
                62..77 => self.collect(),
                _ => self.write(),
            }
            thread::sleep(PAUSE);
        }
    }

    fn count(&mut self) {
        let at = self.random.index(self.counters.len());
        let history = &mut self.counters[at];
        let by_script = self.random.chance(50);
        let args: &[&[u8]] = if by_script { &[b"EVAL", SCRIPT, b"1", &history.key] } else { &[b"INCR", &history.key] };
        let (outcome, span) = timed(|| self.asker.call(&history.key, args));
        history.remember(format!("{span:?} {}: {}", args[0].escape_ascii(), brief(&outcome)));
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

    /// Reads of keys in one pipeline, and a write with a read behind it, which has to see it.
    fn pipeline(&mut self) {
        let mut chosen: Vec<usize> = (0..PIPELINED).map(|_| self.random.index(self.texts.len())).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let written = self.random.index(chosen.len());
        let value = format!("{}-{}", self.number, self.random.bits()).into_bytes();
        let mut commands: Vec<Vec<&[u8]>> = Vec::new();
        for (place, at) in chosen.iter().enumerate() {
            let key = self.texts[*at].key.as_slice();
            if place == written {
                commands.push(vec![b"SET", key, &value]);
            }
            commands.push(vec![b"GET", key]);
        }
        let (outcomes, span) = timed(|| self.asker.pipeline(&commands));
        let mut outcomes = outcomes.into_iter();
        for (place, at) in chosen.into_iter().enumerate() {
            let history = &mut self.texts[at];
            let mut is_uncertain = false;
            if let Some(outcome) = (place == written).then(|| outcomes.next()).flatten() {
                history.remember(format!("{span:?} pipelined {}: {}", value.escape_ascii(), brief(&outcome)));
                is_uncertain = note_set(history, &mut self.report, outcome, span, &value);
            }
            if let Some(outcome) = outcomes.next() {
                history.remember(format!("{span:?} pipelined GET: {}", brief(&outcome)));
                note_read(history, &mut self.report, outcome, span);
            }
            if is_uncertain {
                let fresh = self.fresh();
                self.uncertain.push(std::mem::replace(&mut self.texts[at], fresh));
            }
        }
    }

    /// Reads or writes a pair of keys, whole.
    fn transact(&mut self) {
        let at = self.random.index(self.pairs.len());
        let pair = &mut self.pairs[at];
        if self.random.chance(40) {
            pair.read(&mut self.asker, &mut self.report);
            return;
        }
        let value = self.random.chance(90).then(|| format!("{}-{}", self.number, self.random.bits()).into_bytes());
        if pair.write(&mut self.asker, value.as_deref(), &mut self.report) {
            let fresh = self.fresh_pair();
            self.uncertain_pairs.push(std::mem::replace(&mut self.pairs[at], fresh));
        }
    }

    /// Reads or writes a set or a hash.
    fn collect(&mut self) {
        let at = self.random.index(self.collections.len());
        let collection = &mut self.collections[at];
        if self.random.chance(35) {
            collection.read(&mut self.asker, &mut self.report);
        } else if collection.write(&mut self.asker, &mut self.random, &mut self.report) {
            let fresh = self.fresh_collection();
            self.uncertain_collections.push(std::mem::replace(&mut self.collections[at], fresh));
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
                self.report.note_write();
            }
            Outcome::Answer(Value::Integer(0 | 1)) if value.is_none() => {
                history.wrote(None, None, span);
                self.report.note_write();
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
        for pair in self.pairs.iter_mut().chain(&mut self.uncertain_pairs) {
            if !(0..TRIES).any(|_| pair.read(&mut self.asker, &mut self.report)) {
                self.report.wrong.push(format!("{} can't be read at the end", pair.name()));
            }
            pair.forget();
        }
        for collection in self.collections.iter_mut().chain(&mut self.uncertain_collections) {
            if !(0..TRIES).any(|_| collection.read(&mut self.asker, &mut self.report)) {
                let key = collection.history().key.escape_ascii();
                self.report.wrong.push(format!("{key} can't be read at the end"));
            }
            collection.forget();
        }
        self.uncertain.clear();
        self.uncertain_collections.clear();
        self.uncertain_pairs.clear();
    }

    /// Keys that have to be there.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = &History> {
        let pairs = self.pairs.iter().flat_map(Pair::histories);
        let collections = self.collections.iter().map(Collection::history);
        self.texts.iter().chain(&self.counters).chain(pairs).chain(collections).filter(|history| history.lasts())
    }
}
