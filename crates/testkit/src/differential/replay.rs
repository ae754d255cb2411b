//! Sends operations to both sides and compares what comes back.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use super::behind::Behind;
use super::generate::Op;
use super::heard::Ears;
use super::in_script::carried_out;
use super::later::Later;
use super::oracle::{Expected, Oracle};
use super::slots::is;
use crate::compare::{Compare, Queue, is_queued, without_mode};
use crate::conformance::{count_touched, exists};
use crate::sides::{Link, Reply, Sides, encode, scan_on, shown};
use crate::wire::WireError;

/// Milliseconds that the two sides' clocks may be apart, besides the time that a pipeline took.
const SLACK_MS: i64 = 50;

/// The first operation whose replies differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Its index.
    pub(super) index: usize,
    /// What the plain server sent, escaped.
    pub(super) plain: String,
    /// What the subject sent.
    pub(super) subject: String,
}

/// Plays operations on two sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay<'a> {
    pub(super) sides: Sides,
    /// Every key that operations name.
    pub(super) keys: &'a [Vec<u8>],
    pub(super) behind: Behind,
    /// What the plain server hasn't.
    pub(super) new_commands: &'a Later,
    /// Where later servers have other bounds of encodings, these are not compared.
    pub(super) later: bool,
    /// The keys of which it is compared what subscribers hear.
    pub(super) heard: Option<&'a BTreeSet<Vec<u8>>>,
}

impl Replay<'_> {
    /// Plays operations from empty servers on. Returns where they differ first.
    pub(super) fn play(&self, ops: &[Op], timeout: Duration) -> Result<Option<Mismatch>, WireError> {
        let lane = || Ok::<_, WireError>(Lane::new(self.sides.connect(timeout)?, self.behind));
        let mut lanes = [lane()?, lane()?];
        let cleared = lanes[0].link.call(&[b"FLUSHALL".to_vec()]);
        if let Some(mismatch) = unlike(0, &cleared).filter(|_| shown(&cleared[0]) != shown(&cleared[1])) {
            return Ok(Some(mismatch));
        }
        let protocol = ops.first().and_then(|op| op.args.get(1)).map_or(&b"2"[..], Vec::as_slice);
        let mut ears = self.heard.map(|folded| Ears::open(self.sides, protocol, folded.clone())).transpose()?;
        let Self { keys, behind, new_commands, later, .. } = *self;
        let mut player = Player { keys, behind, new_commands, later, slack_ms: SLACK_MS };
        let mut start = 0;
        while start < ops.len() {
            let end = batch_end(ops, start, self.new_commands);
            let lane = &mut lanes[usize::from(ops[start].second)];
            if let Some(mismatch) = player.play(lane, &ops[start..end]) {
                return Ok(Some(Mismatch { index: start + mismatch.index, ..mismatch }));
            }
            if let Some(ears) = &mut ears
                && let Some([plain, subject]) = heard_otherwise(ears, &ops[end - 1])?
                // Where a model answers, other commands bring the plain side to where it has to be.
                && !self.new_commands.models(&ops[end - 1].args)
            {
                return Ok(Some(Mismatch { index: end - 1, plain, subject }));
            }
            start = end;
        }
        Ok(None)
    }
}

/// What subscribers have heard of a batch whose last operation this is, where that differs.
fn heard_otherwise(ears: &mut Ears, last: &Op) -> Result<Option<[String; 2]>, WireError> {
    let different = ears.compare()?;
    if different.is_some() || last.wait_ms == 0 {
        return Ok(different);
    }
    ears.compare_expired(last)
}

/// After the last operation that is sent with the one at `start`.
fn batch_end(ops: &[Op], start: usize, new_commands: &Later) -> usize {
    let alone = |op: &Op| Compare::of(carried_out(&op.args)).asks_more() || new_commands.models(&op.args);
    let mut end = start + 1;
    while end < ops.len() {
        let (last, next) = (&ops[end - 1], &ops[end]);
        if last.read || alone(last) || alone(next) || last.second != next.second {
            break;
        }
        end += 1;
    }
    end
}

/// A connection of each side, and what the last commands on it mean for the next reply.
struct Lane {
    link: Link,
    oracle: Oracle,
    queue: Queue,
    /// The key that the last command SET.
    fresh: Option<Vec<u8>>,
}

impl Lane {
    fn new(link: Link, behind: Behind) -> Self {
        Self { link, oracle: Oracle::new(behind), queue: Queue::default(), fresh: None }
    }
}

struct Player<'a> {
    keys: &'a [Vec<u8>],
    behind: Behind,
    new_commands: &'a Later,
    later: bool,
    slack_ms: i64,
}

impl Player<'_> {
    fn play(&mut self, lane: &mut Lane, batch: &[Op]) -> Option<Mismatch> {
        if let [op] = batch
            && self.new_commands.models(&op.args)
        {
            return self.play_by_model(lane, op);
        }
        let started = Instant::now();
        let mut plain = Vec::new();
        let expected: Vec<Expected> = batch.iter().map(|op| lane.oracle.ask(&op.args, &mut plain)).collect();
        let subject: Vec<u8> = batch.iter().flat_map(|op| encode(&op.args)).collect();
        // A side that is gone shows when its reply is read.
        let _ = lane.link.plain.send_bytes(&plain);
        let _ = lane.link.subject.send_bytes(&subject);
        let link = &mut lane.link;
        let replies: Vec<[Reply; 2]> =
            expected.iter().map(|expected| [expected.read(&mut link.plain), link.subject.reply()]).collect();
        // An expiry may have been set, and may have been read, that much earlier on one side.
        let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX / 4);
        self.slack_ms = self.slack_ms.max(SLACK_MS + 2 * took_ms);
        for (index, ((op, replies), expected)) in batch.iter().zip(&replies).zip(expected).enumerate() {
            let agree = match expected {
                Expected::Refused => refuses(lane, replies),
                Expected::Same | Expected::Parts(_) => self.agree(lane, op, replies),
            };
            if !agree {
                return unlike(index, replies);
            }
        }
        let last = batch.last()?;
        if last.wait_ms > 0 {
            thread::sleep(Duration::from_millis(last.wait_ms));
        }
        None
    }

    /// Plays a command that the plain server hasn't got.
    fn play_by_model(&mut self, lane: &mut Lane, op: &Op) -> Option<Mismatch> {
        let started = Instant::now();
        lane.fresh = None;
        let [plain, subject] = lane.link.both();
        let expected = self.new_commands.carry_out(&op.args, plain);
        let _ = subject.send_bytes(&encode(&op.args));
        let replies = [expected, subject.reply()];
        let took_ms = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX / 4);
        self.slack_ms = self.slack_ms.max(SLACK_MS + 2 * took_ms);
        match &replies {
            [Ok(expected), Ok(subject)] if Later::agree(expected, subject) => None,
            _ => unlike(0, &replies),
        }
    }

    fn agree(&self, lane: &mut Lane, op: &Op, replies: &[Reply; 2]) -> bool {
        let [Ok(plain), Ok(subject)] = replies else { return false };
        let [plain, subject] = self.seen(op, plain, subject);
        // Both refuse it, for one of two reasons.
        let refused = plain.starts_with(b"-CROSSSLOT ") && subject.starts_with(b"-EXECABORT ");
        if self.behind == Behind::Cluster && is(&op.args, "EXEC") && refused {
            lane.queue = Queue::default();
            return true;
        }
        let mut compare = self.compare(op);
        let fresh = mem::take(&mut lane.fresh);
        if compare == Compare::Encoding && op.args.get(2) != fresh.as_ref() && !is_queued(&plain) {
            compare = Compare::Kind;
        }
        if op.args[0] == b"SET" && *plain == *b"+OK\r\n" {
            lane.fresh = op.args.get(1).cloned();
        }
        lane.queue.agree(&op.args, compare, &plain, &subject, self.slack_ms)
            && (is_queued(&plain)
                || plain.starts_with(b"-")
                || self.ask_more(&mut lane.link, op, compare, [&plain, &subject]))
    }

    /// What of the replies is compared.
    fn seen<'r>(&self, op: &Op, plain: &'r [u8], subject: &'r [u8]) -> [Cow<'r, [u8]>; 2] {
        if self.behind.is_cluster() && is(&op.args, "HELLO") {
            return [plain, subject].map(|reply| without_mode(reply).into());
        }
        [plain.into(), subject.into()]
    }

    fn compare(&self, op: &Op) -> Compare {
        let mut compare = Compare::of(carried_out(&op.args));
        if self.later {
            compare = compare.of_later();
        }
        // Keyfold refuses cursors that no SCAN before a cluster gave.
        let is_strange = self.behind.is_cluster() && is(&op.args, "SCAN") && compare == Compare::Kind;
        if is_strange { Compare::Skip } else { compare }
    }

    fn ask_more(&self, link: &mut Link, op: &Op, compare: Compare, [plain, subject]: [&[u8]; 2]) -> bool {
        let [plain_wire, subject_wire] = link.both();
        match compare {
            Compare::Scan => {
                let plain = scan_on(plain_wire, &op.args, plain);
                let subject = scan_on(subject_wire, &op.args, subject);
                matches!((plain, subject), (Ok(plain), Ok(subject)) if plain.is_some() && plain == subject)
            }
            Compare::Existing => exists(plain_wire, plain) && exists(subject_wire, subject),
            Compare::KeyCount => {
                let plain = count_touched(plain_wire, self.keys);
                plain.is_some() && plain <= count_touched(subject_wire, self.keys)
            }
            _ => true,
        }
    }
}

/// Whether the subject refused a transaction that the plain side was asked to forget.
fn refuses(lane: &mut Lane, [plain, subject]: &[Reply; 2]) -> bool {
    lane.queue = Queue::default();
    let refused =
        |subject: &Vec<u8>| plain.as_ref().is_ok_and(|plain| plain == subject) || subject.starts_with(b"-EXECABORT ");
    subject.as_ref().is_ok_and(refused)
}

fn unlike(index: usize, replies: &[Reply; 2]) -> Option<Mismatch> {
    let [plain, subject] = replies;
    Some(Mismatch { index, plain: shown(plain), subject: shown(subject) })
}
