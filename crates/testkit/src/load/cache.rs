//! One client of a cache: each of its keys is there as it was written, or absent, and never anything else.
//!
//! It sends steps by the dozen before it reads an answer, so that what leaves leaves between any two of them. Where it
//! finds a key gone that nothing took away but eviction, it counts that. Keys of steps whose answers are lost are left
//! alone until everything stands still ([`CacheClient::check`]).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::client::{ANSWERED_WITHIN, LATE_MS, RETRY_AFTER, Report, now_ms};
use super::oracle::{Op, Possible};
use crate::random::Random;
use crate::reply::Scanner;
use crate::wire::{Wire, WireError};

/// Steps that are under way together.
const STEPS_AT_ONCE: usize = 48;
/// So much is remembered of a key.
const PAST: usize = 8;
/// Keys that MSET and MGET have.
const KEYS_AT_ONCE: usize = 3;

/// What is sent at once, of which no part happens apart from the others.
#[derive(Debug)]
enum Step {
    One(usize, Op),
    /// MSET
    Write(Vec<(usize, Vec<u8>)>),
    /// MGET, whose keys are read one after another.
    Read(Vec<usize>),
    /// MULTI on one key, which is watched before where that is said.
    Together(usize, Vec<Op>, bool),
}

#[derive(Debug)]
struct Key {
    name: Vec<u8>,
    possible: Possible,
    is_uncertain: bool,
    /// What was asked last and what came of it, for whoever has to find out what went wrong.
    past: VecDeque<String>,
}

/// A client of a cache, with keys of its own.
#[derive(Debug)]
pub struct CacheClient {
    random: Random,
    keys: Vec<Key>,
    written: u64,
    report: Report,
    vanished: Arc<AtomicU64>,
    has_single_keys: bool,
}

impl CacheClient {
    /// A client with these keys, none of which exists. It counts in `vanished` what it finds gone.
    pub fn new(seed: u64, names: impl IntoIterator<Item = Vec<u8>>, vanished: &Arc<AtomicU64>) -> Self {
        let key = |name| Key { name, possible: Possible::only(None), is_uncertain: false, past: VecDeque::new() };
        Self {
            random: Random::new(seed),
            keys: names.into_iter().map(key).collect(),
            written: 0,
            report: Report::default(),
            vanished: Arc::clone(vanished),
            has_single_keys: false,
        }
    }

    /// It sends no command on several keys, which in a cluster lie in several slots.
    pub fn keep_to_single_keys(&mut self) {
        self.has_single_keys = true;
    }

    /// What it met since this was asked last.
    pub fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    /// Works at one of the addresses, and at the next where that one fails, until it is told to stop.
    pub fn work(&mut self, addresses: &[SocketAddr], stop: &AtomicBool) {
        let (mut wire, mut at) = (None, 0);
        while !stop.load(Ordering::Acquire) {
            let Some(connection) = &mut wire else {
                wire = Wire::connect(addresses[at % addresses.len()]).ok();
                match &wire {
                    Some(connection) => drop(connection.set_timeout(ANSWERED_WITHIN)),
                    None => {
                        self.report.lost += 1;
                        at += 1;
                        thread::sleep(RETRY_AFTER);
                    }
                }
                continue;
            };
            let steps: Vec<Step> = (0..STEPS_AT_ONCE).filter_map(|_| self.draw()).collect();
            if self.run(steps, connection).is_err() {
                self.report.lost += 1;
                wire = None;
                at += 1;
            }
        }
    }

    /// Reads all keys, now that nothing of it is under way any more, and knows again what they hold.
    pub fn check(&mut self, wire: &mut Wire) {
        let before = (self.report.errors.len(), self.report.lost);
        self.keys.iter_mut().for_each(|key| key.is_uncertain = false);
        for start in (0..self.keys.len()).step_by(STEPS_AT_ONCE) {
            let keys = start..(start + STEPS_AT_ONCE).min(self.keys.len());
            let steps = keys.flat_map(|key| [Op::Get, Op::ExpiryTime].map(|op| Step::One(key, op))).collect();
            if self.run(steps, wire).is_err() {
                self.report.lost += 1;
            }
        }
        if (self.report.errors.len(), self.report.lost) != before {
            self.report.wrong.push("keys can't be read".to_owned());
        }
    }

    /// Keys that may be there by what it knows.
    pub fn may_be_there(&self) -> usize {
        self.keys.iter().filter(|key| !key.possible.is_absent()).count()
    }

    /// A key, those with low numbers more often.
    fn pick(&mut self) -> Option<usize> {
        let below = self.random.below(self.keys.len() as u64) + 1;
        let key = self.random.index(usize::try_from(below).unwrap_or(1));
        (!self.keys[key].is_uncertain).then_some(key)
    }

    fn draw(&mut self) -> Option<Step> {
        let key = self.pick()?;
        Some(match self.random.below(100) {
            0..80 => Step::One(key, self.draw_op()),
            80..94 if self.has_single_keys => Step::One(key, Op::Swap(self.value())),
            80..88 => {
                let keys: Vec<usize> = (0..KEYS_AT_ONCE).filter_map(|_| self.pick()).collect();
                Step::Write(keys.into_iter().chain([key]).map(|key| (key, self.value())).collect())
            }
            88..94 => Step::Read((0..KEYS_AT_ONCE).filter_map(|_| self.pick()).chain([key]).collect()),
            94..97 => Step::Together(key, vec![Op::Increment, Op::Get, Op::Append(b"0".to_vec()), Op::Get], false),
            _ => Step::Together(key, vec![Op::Set(self.value()), Op::Get, Op::Persist, Op::Get], true),
        })
    }

    fn draw_op(&mut self) -> Op {
        let late_ms = LATE_MS + i64::try_from(self.random.below(1000)).unwrap_or(0);
        let soon_ms = now_ms() + 200 + i64::try_from(self.random.below(3000)).unwrap_or(0);
        match self.random.below(100) {
            0..15 => Op::Get,
            15..40 => Op::Set(self.value()),
            40..45 => Op::SetUntil(self.value(), late_ms),
            45..50 => Op::SetUntil(self.value(), soon_ms),
            50..58 => Op::SetIfAbsent(self.value()),
            58..70 => Op::Swap(self.value()),
            70..77 => Op::Append(b"+".to_vec()),
            77..86 => Op::Increment,
            86..89 => Op::Delete,
            89..91 => Op::ExpireAt(late_ms),
            91..93 => Op::ExpireAt(soon_ms),
            93..96 => Op::Persist,
            _ => Op::ExpiryTime,
        }
    }

    /// A value that no key had before: a number, a text, digits that a codec packs, bytes, or one that is spilled.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let unique = (self.random.bits() >> 40) * 1_000_000 + self.written;
        match self.random.below(10) {
            0..4 => unique.to_string().into_bytes(),
            4..6 => format!("value {unique}").into_bytes(),
            6..8 => format!("{unique:032x}").into_bytes(),
            8 => [&b"\x01\xff"[..], &unique.to_be_bytes()].concat(),
            _ => format!("{unique:0200}x").into_bytes(),
        }
    }

    /// Sends steps, reads what comes of each, and compares it.
    fn run(&mut self, steps: Vec<Step>, wire: &mut Wire) -> Result<(), WireError> {
        let sent_ms = now_ms();
        let mut steps = VecDeque::from(steps);
        let mut outcome = steps.iter().try_for_each(|step| self.send(step, wire));
        while let (Ok(()), Some(step)) = (&outcome, steps.front()) {
            let replies = (0..step.replies()).map(|_| wire.reply()).collect::<Result<Vec<_>, _>>();
            match replies {
                Ok(replies) => {
                    self.compare(step, &replies, (sent_ms, now_ms()));
                    steps.pop_front();
                }
                Err(error) => outcome = Err(error),
            }
        }
        for step in steps {
            self.lose(&step);
        }
        outcome
    }

    fn send(&self, step: &Step, wire: &mut Wire) -> Result<(), WireError> {
        let name = |key: &usize| self.keys[*key].name.as_slice();
        let send = |wire: &mut Wire, args: &[Vec<u8>]| wire.send(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        match step {
            Step::One(key, op) => send(wire, &op.args(name(key))),
            Step::Write(pairs) => {
                let pairs = pairs.iter().flat_map(|(key, value)| [name(key), value.as_slice()]);
                wire.send(&[&b"MSET"[..]].into_iter().chain(pairs).collect::<Vec<_>>())
            }
            Step::Read(keys) => wire.send(&[&b"MGET"[..]].into_iter().chain(keys.iter().map(name)).collect::<Vec<_>>()),
            Step::Together(key, ops, is_watched) => {
                if *is_watched {
                    wire.send(&[b"WATCH", name(key)])?;
                }
                wire.send(&[b"MULTI"])?;
                ops.iter().try_for_each(|op| send(wire, &op.args(name(key))))?;
                wire.send(&[b"EXEC"])
            }
        }
    }

    fn compare(&mut self, step: &Step, replies: &[Vec<u8>], when: (i64, i64)) {
        let last = replies.last().map_or(&b""[..], Vec::as_slice);
        match step {
            Step::One(key, op) => self.see(*key, op, last, when, true),
            Step::Write(pairs) => {
                for (key, value) in pairs {
                    self.see(*key, &Op::Set(value.clone()), last, when, true);
                }
            }
            Step::Read(keys) => match elements(last) {
                Some(values) if values.len() == keys.len() => {
                    keys.iter().zip(values).for_each(|(key, value)| self.see(*key, &Op::Get, value, when, true));
                }
                _ => self.refused(step, last),
            },
            // It had changed, or was evicted, which is a change too.
            Step::Together(key, ops, true) if last == b"*-1\r\n" => {
                self.keys[*key].past.push_front(format!("{ops:?} in {when:?}: nil"));
            }
            Step::Together(key, ops, _) => match elements(last) {
                Some(answers) if answers.len() == ops.len() => {
                    for (at, (op, answer)) in ops.iter().zip(answers).enumerate() {
                        self.see(*key, op, answer, when, at == 0);
                    }
                }
                _ => self.refused(step, last),
            },
        }
    }

    /// Compares an answer, before which the key may have vanished.
    fn see(&mut self, key: usize, op: &Op, answer: &[u8], when: (i64, i64), may_vanish: bool) {
        let Key { name, possible, is_uncertain, past } = &mut self.keys[key];
        past.truncate(PAST - 1);
        past.push_front(format!("{op:?} in {when:?}: {}", answer.escape_ascii()));
        let before = possible.clone();
        // Both may give the same answer, as SET does.
        let stays = before.clone().answered(op, answer, when);
        if may_vanish {
            *possible = before.or_absent();
        }
        if possible.answered(op, answer, when) {
            self.report.answers += 1;
            self.vanished.fetch_add(u64::from(!stays), Ordering::Relaxed);
        } else if answer.starts_with(b"-") {
            self.report.note_error(answer);
            possible.unanswered_all(std::slice::from_ref(op));
            *is_uncertain = true;
        } else {
            let (name, answer) = (name.escape_ascii(), answer.escape_ascii());
            let past: Vec<_> = past.iter().map(String::as_str).collect();
            let past = past.join("\n      ");
            self.report.wrong.push(format!("{name}: {op:?} on {before:?} answered {answer}; last came\n      {past}"));
            *is_uncertain = true;
        }
    }

    /// An answer to a whole step that isn't what it must be.
    fn refused(&mut self, step: &Step, answer: &[u8]) {
        if answer.starts_with(b"-") {
            self.report.note_error(answer);
        } else {
            self.report.wrong.push(format!("{step:?} answered {}", answer.escape_ascii()));
        }
        self.lose(step);
    }

    /// It isn't known whether a step was carried out.
    fn lose(&mut self, step: &Step) {
        let mut lose = |key: usize, ops: &[Op]| {
            let key = &mut self.keys[key];
            key.possible.unanswered_all(ops);
            key.is_uncertain = true;
        };
        match step {
            Step::One(key, op) => lose(*key, std::slice::from_ref(op)),
            Step::Write(pairs) => pairs.iter().for_each(|(key, value)| lose(*key, &[Op::Set(value.clone())])),
            Step::Read(_) => {}
            Step::Together(key, ops, _) => lose(*key, ops),
        }
    }
}

impl Step {
    fn replies(&self) -> usize {
        match self {
            Self::Together(_, ops, is_watched) => ops.len() + 2 + usize::from(*is_watched),
            _ => 1,
        }
    }
}

/// The elements of an array, byte for byte; none where it is another answer.
fn elements(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let head = reply.iter().position(|byte| *byte == b'\n')? + 1;
    let count: usize = std::str::from_utf8(reply[..head].strip_prefix(b"*")?).ok()?.trim_end().parse().ok()?;
    let mut rest = &reply[head..];
    let next = |_| {
        let (element, after) = rest.split_at(Scanner::default().scan(rest).ok()??);
        rest = after;
        Some(element)
    };
    (0..count).map(next).collect()
}
