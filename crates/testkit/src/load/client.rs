//! One client of a load.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::collection::Kind;
use super::latency::Latencies;
use super::members::MemberOp;
use super::oracle::{Op, Possible, State};
use crate::random::Random;
use crate::wire::{Wire, WireError};

/// How long an answer may take before it is taken for lost.
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// Before it connects once more.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(5);
/// Commands on a key that are told where one goes wrong.
const REMEMBERED: usize = 12;
/// Far enough for no test to see it: 2040.
pub(super) const LATE_MS: i64 = 2_209_000_000_000;

/// Counters that all clients count up.
#[derive(Debug, Default)]
pub struct Counters {
    counters: Vec<Counter>,
}

#[derive(Debug, Default)]
struct Counter {
    key: Vec<u8>,
    /// Where it is a field of a hash, and no key.
    field: Option<Vec<u8>>,
    answered: AtomicI64,
    unanswered: AtomicI64,
}

impl Counters {
    /// Counters under these keys, which don't exist yet.
    pub fn new(keys: impl Iterator<Item = Vec<u8>>) -> Arc<Self> {
        Self::with_fields(keys, std::iter::empty())
    }

    /// The same, and counters that are fields of hashes, each a key and a name.
    pub fn with_fields(
        keys: impl Iterator<Item = Vec<u8>>,
        fields: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Arc<Self> {
        let counters = keys.map(|key| (key, None)).chain(fields.map(|(key, field)| (key, Some(field))));
        Arc::new(Self { counters: counters.map(|(key, field)| Counter { key, field, ..Counter::default() }).collect() })
    }

    /// What is wrong with them, now that nobody counts.
    pub fn check(&self, wire: &mut Wire) -> Vec<String> {
        let mut wrong = Vec::new();
        for counter in &self.counters {
            let Counter { key, answered, unanswered, .. } = counter;
            let least = answered.load(Ordering::Acquire);
            let most = least + unanswered.load(Ordering::Acquire);
            let reply = counter.call(&counter.read(), wire).unwrap_or_else(|error| error.to_string().into_bytes());
            let text = String::from_utf8_lossy(&reply).into_owned();
            let found = text.lines().nth(1).and_then(|line| line.parse().ok());
            if !found.map_or(reply == b"$-1\r\n" && least == 0, |found: i64| (least..=most).contains(&found)) {
                wrong.push(format!(
                    "{}: {least} to {most} counted, found {}",
                    key.escape_ascii(),
                    reply.escape_ascii()
                ));
            }
        }
        wrong
    }
}

impl Counter {
    fn count_up(&self) -> Op {
        match &self.field {
            Some(field) => Op::OnMembers(MemberOp::Increment(field.clone())),
            None => Op::Increment,
        }
    }

    fn read(&self) -> Op {
        match &self.field {
            Some(field) => Op::OnMembers(MemberOp::Value(field.clone())),
            None => Op::Get,
        }
    }

    fn call(&self, op: &Op, wire: &mut Wire) -> Result<Vec<u8>, WireError> {
        wire.call(&op.args(&self.key).iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

/// What clients met.
#[derive(Debug, Default)]
pub struct Report {
    /// Answers that were right.
    pub answers: u64,
    /// Errors instead of answers, the first of each kind, and how many of it.
    pub errors: BTreeMap<String, u64>,
    /// Connections that were lost, or not to be had.
    pub lost: u64,
    /// Answers that no order of events gives.
    pub wrong: Vec<String>,
    /// How long answers took.
    pub latencies: Latencies,
}

impl Report {
    /// Adds another client's.
    pub fn extend(&mut self, other: Self) {
        self.answers += other.answers;
        self.lost += other.lost;
        self.wrong.extend(other.wrong);
        self.latencies.extend(&other.latencies);
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }
}

/// A key of one client alone.
#[derive(Debug)]
struct Key {
    name: Vec<u8>,
    /// What it holds, where that isn't a string.
    kind: Option<Kind>,
    possible: Possible,
    /// An answer about it was lost: it is left alone.
    is_uncertain: bool,
    past: VecDeque<String>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    random: Random,
    keys: Vec<Key>,
    counters: Arc<Counters>,
    counted: BTreeMap<usize, i64>,
    /// Lengths of values over which they are spilled.
    long_bytes: usize,
    written: u64,
    report: Report,
}

impl Client {
    /// A client with keys that are in these states.
    pub fn new(seed: u64, keys: impl Iterator<Item = (Vec<u8>, State)>, counters: &Arc<Counters>) -> Self {
        Self {
            random: Random::new(seed),
            keys: keys.map(|(name, state)| Key::new(name, None, state)).collect(),
            counters: Arc::clone(counters),
            counted: BTreeMap::new(),
            long_bytes: 100,
            written: 0,
            report: Report::default(),
        }
    }

    /// Gives it sets and hashes too, under these keys, none of which exists.
    pub fn with_collections(
        mut self,
        sets: impl Iterator<Item = Vec<u8>>,
        hashes: impl Iterator<Item = Vec<u8>>,
    ) -> Self {
        self.keys.extend(sets.map(|name| Key::new(name, Some(Kind::Set), None)));
        self.keys.extend(hashes.map(|name| Key::new(name, Some(Kind::Hash), None)));
        self
    }

    /// What it met since this was asked last.
    pub fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    pub(super) fn work(&mut self, addresses: &[SocketAddr], every: Option<Duration>, stop: &AtomicBool) {
        let (mut wire, mut at, start) = (None, 0, Instant::now());
        let mut due = start;
        while !stop.load(Ordering::Acquire) {
            let Some(connection) = &mut wire else {
                match Wire::connect(addresses[at % addresses.len()]) {
                    Ok(connection) => {
                        let _ = connection.set_timeout(ANSWERED_WITHIN);
                        wire = Some(connection);
                    }
                    Err(_) => {
                        self.report.lost += 1;
                        at += 1;
                        thread::sleep(RETRY_AFTER);
                    }
                }
                due = Instant::now();
                continue;
            };
            match every {
                Some(every) => {
                    due += every;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                None => due = Instant::now(),
            }
            let is_answered = if self.random.chance(10) { self.count(connection) } else { self.command(connection) };
            self.report.latencies.add(due, due.elapsed());
            if !is_answered {
                self.report.lost += 1;
                wire = None;
                at += 1;
            }
        }
    }

    /// Counts up a counter; false where the connection is gone.
    fn count(&mut self, wire: &mut Wire) -> bool {
        let counters = Arc::clone(&self.counters);
        let at = self.random.index(counters.counters.len());
        let Some(counter) = counters.counters.get(at) else { return true };
        // Until the answer says otherwise, both may be.
        counter.unanswered.fetch_add(1, Ordering::AcqRel);
        let Ok(reply) = counter.call(&counter.count_up(), wire) else { return false };
        let number = reply.strip_prefix(b":").and_then(|text| std::str::from_utf8(text).ok()?.trim_end().parse().ok());
        let Some(number) = number else {
            self.note_error(&reply);
            return true;
        };
        counter.answered.fetch_add(1, Ordering::AcqRel);
        counter.unanswered.fetch_sub(1, Ordering::AcqRel);
        self.report.answers += 1;
        let before = self.counted.insert(at, number).unwrap_or(0);
        if number <= before {
            let key = counter.key.escape_ascii();
            self.report.wrong.push(format!("counting {key} up answered {before} and later {number}"));
        }
        true
    }

    /// A command on a key of its own; false where the connection is gone.
    fn command(&mut self, wire: &mut Wire) -> bool {
        let index = self.random.index(self.keys.len());
        if self.keys.get(index).is_none_or(|key| key.is_uncertain) {
            thread::sleep(Duration::from_micros(100));
            return true;
        }
        let op = match self.keys[index].kind {
            Some(kind) if self.random.chance(85) => kind.draw(&mut self.random),
            Some(_) => self.draw_on_key(),
            None => self.draw(),
        };
        self.keys[index].run(&op, wire, &mut self.report)
    }

    fn draw(&mut self) -> Op {
        let (soon_ms, late_ms) = self.draw_times();
        match self.random.below(100) {
            0..45 => Op::Get,
            45..62 => Op::Set(self.value()),
            62..66 => Op::SetUntil(self.value(), late_ms),
            66..68 => Op::SetUntil(self.value(), soon_ms),
            68..72 => Op::SetIfAbsent(self.value()),
            72..75 => Op::Swap(self.value()),
            75..80 => Op::Append(b"+".to_vec()),
            80..85 => Op::Increment,
            _ => self.draw_on_key(),
        }
    }

    /// A command that is the same for every type.
    fn draw_on_key(&mut self) -> Op {
        let (soon_ms, late_ms) = self.draw_times();
        match self.random.below(15) {
            0..5 => Op::Delete,
            5..8 => Op::ExpireAt(late_ms),
            8 => Op::ExpireAt(soon_ms),
            9..12 => Op::Persist,
            _ => Op::ExpiryTime,
        }
    }

    /// A time that a round sees, and one that nobody does.
    fn draw_times(&mut self) -> (i64, i64) {
        let soon_ms = now_ms() + 200 + i64::try_from(self.random.below(800)).unwrap_or(0);
        (soon_ms, LATE_MS + i64::try_from(self.random.below(1000)).unwrap_or(0))
    }

    /// A value that no key had before: a number, a text, bytes, or a long one.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let unique = (self.random.bits() >> 40) * 1_000_000 + self.written;
        match self.random.below(10) {
            0..5 => unique.to_string().into_bytes(),
            5..8 => format!("value {unique}").into_bytes(),
            8 => [&b"\x01\xff"[..], &unique.to_be_bytes()].concat(),
            _ => format!("{unique:0width$}x", width = self.long_bytes).into_bytes(),
        }
    }

    fn note_error(&mut self, reply: &[u8]) {
        self.report.note_error(reply);
    }

    /// Reads all keys, now that nothing of it is under way any more, and knows again what they hold.
    pub fn check(&mut self, wire: &mut Wire) {
        for key in &mut self.keys {
            for op in [key.kind.map_or(Op::Get, Kind::read), Op::ExpiryTime] {
                let errors = self.report.errors.len();
                if !key.run(&op, wire, &mut self.report) || self.report.errors.len() > errors {
                    self.report.wrong.push(format!("{} can't be read", key.name.escape_ascii()));
                }
            }
            key.is_uncertain = false;
        }
    }
}

impl Report {
    pub(super) fn note_error(&mut self, reply: &[u8]) {
        *self.errors.entry(reply.trim_ascii_end().escape_ascii().to_string()).or_default() += 1;
    }
}

impl Key {
    fn new(name: Vec<u8>, kind: Option<Kind>, state: State) -> Self {
        let past = VecDeque::with_capacity(REMEMBERED);
        Self { name, kind, possible: Possible::only(state), is_uncertain: false, past }
    }

    /// Runs a command; false where the connection is gone.
    fn run(&mut self, op: &Op, wire: &mut Wire, report: &mut Report) -> bool {
        let args = op.args(&self.name);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let sent_ms = now_ms();
        let reply = wire.call(&args);
        let came_ms = now_ms();
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        let Ok(reply) = reply else {
            self.past.push_back(format!("{sent_ms} {op:?}: no answer"));
            self.possible.unanswered(op);
            self.is_uncertain = true;
            return false;
        };
        self.past.push_back(format!("{sent_ms} to {came_ms} {op:?}: {}", reply.escape_ascii()));
        let before = self.possible.clone();
        if self.possible.answered(op, &reply, (sent_ms, came_ms)) {
            report.answers += 1;
        } else if reply.starts_with(b"-") {
            report.note_error(&reply);
            self.possible.unanswered(op);
            self.is_uncertain = true;
        } else {
            let past: Vec<&str> = self.past.iter().map(String::as_str).collect();
            let (key, past) = (self.name.escape_ascii(), past.join("\n    "));
            report.wrong.push(format!("{key}: {op:?} on {before:?} answered {}\n    {past}", reply.escape_ascii()));
            self.is_uncertain = true;
        }
        true
    }
}

pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
