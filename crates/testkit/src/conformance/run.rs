//! Runs a case on both sides, step by step.

use std::mem;
use std::time::{Duration, Instant};

use keyfold_core::named;
use keyfold_core::resp::write_command;

use super::script::{self, Action, Step, expand};
use super::{Case, FAMILIES, POOLS, Pool};
use crate::compare::{Compare, Queue, is_queued};
use crate::reply::Value;
use crate::sides::{Link, Reply, Sides, scan_on, shown};
use crate::wire::{Wire, WireError};

/// How long a reply may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a `?until` step may ask.
const UNTIL: Duration = Duration::from_secs(10);
/// Milliseconds that two clocks' answers may be apart, whatever the commands took.
const SLACK_MS: i64 = 50;

named! {
    /// What a connection speaks when a case begins.
    pub enum Protocol {
        /// RESP2, as servers begin.
        Resp2 = "RESP2",
        /// RESP3, by HELLO 3.
        Resp3 = "RESP3",
    }
}

/// Where a case's replies are not the same.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{case} (keys: {pool}, {protocol}), at `{line}`\n  plain:   {plain}\n  subject: {subject}")]
pub struct Difference {
    /// The case.
    pub case: &'static str,
    /// The pool's name.
    pub pool: &'static str,
    /// What the connections spoke at the case's begin.
    pub protocol: Protocol,
    /// The step's line in the script.
    pub line: String,
    /// The plain server's reply, escaped.
    pub plain: String,
    /// The subject's.
    pub subject: String,
}

/// Runs every case whose family or name contains `filter`, over every pool and in both protocols. Returns
/// how many were run and the first difference of each that failed.
pub fn run_all(sides: Sides, filter: &str) -> (usize, Vec<Difference>) {
    let mut count = 0;
    let mut differences = Vec::new();
    for (family, cases) in FAMILIES {
        for case in cases.iter().filter(|case| family.contains(filter) || case.name.contains(filter)) {
            for pool in POOLS {
                for protocol in Protocol::ALL {
                    count += 1;
                    differences.extend(run(sides, case, pool, protocol).err());
                }
            }
        }
    }
    (count, differences)
}

/// Runs one case from empty servers on.
///
/// # Errors
/// The first step whose replies differ.
pub fn run(sides: Sides, case: &Case, pool: &Pool, protocol: Protocol) -> Result<(), Difference> {
    let differ = |line: &str, plain: String, subject: String| Difference {
        case: case.name,
        pool: pool.name,
        protocol,
        line: line.to_owned(),
        plain,
        subject,
    };
    let steps = script::parse(case.script).map_err(|error| differ("", error.to_string(), error.to_string()))?;
    let mut runner = Runner::start(sides, pool, protocol)
        .map_err(|error| differ("before the first step", error.to_string(), error.to_string()))?;
    for step in &steps {
        let unlike = |Unlike { line, plain, subject }| differ(&line, plain, subject);
        if !step.needs {
            runner.step(step).map_err(unlike)?;
        } else if !runner.plain_knows(step).map_err(unlike)? {
            break;
        }
    }
    Ok(())
}

/// Two replies that are not the same.
struct Unlike {
    line: String,
    plain: String,
    subject: String,
}

/// A connection of each side, and what is awaited on it.
struct Lane {
    link: Link,
    queue: Queue,
    /// Commands sent whose replies are not read yet.
    awaited: Vec<Awaited>,
}

#[derive(Clone)]
struct Awaited {
    line: String,
    args: [Vec<Vec<u8>>; 2],
    compare: Compare,
}

struct Runner<'a> {
    pool: &'a Pool,
    lanes: [Lane; 2],
    /// The last bulk string of each side.
    last: [Vec<u8>; 2],
    started: Instant,
}

impl<'a> Runner<'a> {
    fn start(sides: Sides, pool: &'a Pool, protocol: Protocol) -> Result<Self, WireError> {
        let lane = || -> Result<Lane, WireError> {
            let mut link = sides.connect(TIMEOUT)?;
            if protocol == Protocol::Resp3 {
                for wire in link.both() {
                    wire.call(&[b"HELLO", b"3"])?;
                }
            }
            Ok(Lane { link, queue: Queue::default(), awaited: Vec::new() })
        };
        let mut lanes = [lane()?, lane()?];
        for wire in lanes[0].link.both() {
            wire.call(&[b"FLUSHALL"])?;
        }
        Ok(Self { pool, lanes, last: [Vec::new(), Vec::new()], started: Instant::now() })
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), Unlike> {
        match &step.action {
            Action::Closed => return self.expect_same_end(step),
            Action::Raw(bytes) => self.lane(step).link.send(bytes),
            Action::Read => {}
            Action::Command(_) if step.until.is_some() => return self.ask_until(step),
            Action::Command(_) => self.send(step)?,
        }
        if !matches!(step.action, Action::Command(_)) || step.replies != 1 {
            self.await_more(step);
        }
        if step.pipelined { Ok(()) } else { self.read(step) }
    }

    /// Whether the plain server has the command of a step, with its options.
    fn plain_knows(&mut self, step: &Step<'_>) -> Result<bool, Unlike> {
        let [args, _] = self.args(step)?;
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let reply = self.lane(step).link.plain.call(&args);
        let reply = reply.map_err(|error| unlike(step.line, &[Err(error), Ok(Vec::new())]))?;
        Ok(!reply.starts_with(b"-ERR unknown command") && !reply.starts_with(b"-ERR syntax error"))
    }

    fn lane(&mut self, step: &Step<'_>) -> &mut Lane {
        &mut self.lanes[usize::from(step.second)]
    }

    fn args(&self, step: &Step<'_>) -> Result<[Vec<Vec<u8>>; 2], Unlike> {
        let Action::Command(words) = &step.action else { return Ok([Vec::new(), Vec::new()]) };
        let fill = |last: &[u8]| words.iter().map(|word| expand(word, self.pool, last)).collect::<Result<Vec<_>, _>>();
        let unlike = |what: String| Unlike { line: step.line.to_owned(), plain: what.clone(), subject: what };
        Ok([fill(&self.last[0]).map_err(unlike)?, fill(&self.last[1]).map_err(unlike)?])
    }

    fn send(&mut self, step: &Step<'_>) -> Result<(), Unlike> {
        let args = self.args(step)?;
        let lane = self.lane(step);
        for (wire, args) in lane.link.both().into_iter().zip(&args) {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let mut bytes = Vec::new();
            write_command(&mut bytes, &args);
            // A side that is gone shows when its reply is read.
            let _ = wire.send_bytes(&bytes);
        }
        if step.replies == 1 {
            let compare = step.compare.unwrap_or_else(|| Compare::of(&args[0]));
            lane.awaited.push(Awaited { line: step.line.to_owned(), args, compare });
        }
        Ok(())
    }

    /// Replies that answer no command one to one.
    fn await_more(&mut self, step: &Step<'_>) {
        let compare = step.compare.unwrap_or(Compare::Exact);
        let awaited = Awaited { line: step.line.to_owned(), args: [Vec::new(), Vec::new()], compare };
        self.lane(step).awaited.extend(vec![awaited; step.replies]);
    }

    fn read(&mut self, step: &Step<'_>) -> Result<(), Unlike> {
        for awaited in mem::take(&mut self.lane(step).awaited) {
            let lane = &mut self.lanes[usize::from(step.second)];
            let replies = lane.link.replies();
            // What they were waited for is time that passed between them too.
            let slack_ms = SLACK_MS + i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
            let alike = match &replies {
                [Ok(plain), Ok(subject)] => {
                    let [args, _] = &awaited.args;
                    lane.queue.agree(args, awaited.compare, plain, subject, slack_ms)
                        && (is_queued(plain) || ask_more(&mut lane.link, &awaited, plain, subject, self.pool))
                }
                [plain, subject] => shown(plain) == shown(subject),
            };
            if !alike {
                return Err(unlike(&awaited.line, &replies));
            }
            for (last, reply) in self.last.iter_mut().zip(&replies) {
                if let Some(bytes) = bulk(reply) {
                    *last = bytes;
                }
            }
        }
        Ok(())
    }

    /// Some versions close where others go on; so whether a side still answers is what is compared.
    fn expect_same_end(&mut self, step: &Step<'_>) -> Result<(), Unlike> {
        let replies = self.lane(step).link.call(&[b"PING".to_vec()]);
        let ends = |reply: &Reply| matches!(reply, Err(error) if !matches!(error, WireError::Timeout(_)));
        let alike = match &replies {
            [Ok(plain), Ok(subject)] => plain == subject,
            [plain, subject] => ends(plain) && ends(subject),
        };
        if alike { Ok(()) } else { Err(unlike(step.line, &replies)) }
    }

    fn ask_until(&mut self, step: &Step<'_>) -> Result<(), Unlike> {
        let args = self.args(step)?;
        let wanted = step.until.clone().unwrap_or_default();
        let link = &mut self.lane(step).link;
        let mut replies = link.call(&args[0]);
        let deadline = Instant::now() + UNTIL;
        let done =
            |replies: &[Reply; 2]| replies.iter().all(|reply| reply.as_ref().is_ok_and(|reply| *reply == wanted));
        while !done(&replies) && Instant::now() < deadline && replies.iter().all(Result::is_ok) {
            replies = link.call(&args[0]);
        }
        if done(&replies) { Ok(()) } else { Err(unlike(step.line, &replies)) }
    }
}

fn unlike(line: &str, replies: &[Reply; 2]) -> Unlike {
    let [plain, subject] = replies;
    Unlike { line: line.to_owned(), plain: shown(plain), subject: shown(subject) }
}

fn bulk(reply: &Reply) -> Option<Vec<u8>> {
    match Value::parse(reply.as_ref().ok()?).ok()? {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

/// Asks both sides what it takes to compare replies that need not be the same bytes.
fn ask_more(link: &mut Link, awaited: &Awaited, plain: &[u8], subject: &[u8], pool: &Pool) -> bool {
    if plain.starts_with(b"-") || awaited.args[0].is_empty() {
        return true;
    }
    let [plain_wire, subject_wire] = link.both();
    match awaited.compare {
        Compare::Scan => {
            let plain = scan_on(plain_wire, &awaited.args[0], plain);
            let subject = scan_on(subject_wire, &awaited.args[1], subject);
            matches!((plain, subject), (Ok(plain), Ok(subject)) if plain.is_some() && plain == subject)
        }
        Compare::Existing => exists(plain_wire, plain) && exists(subject_wire, subject),
        Compare::KeyCount => {
            let keys: Vec<Vec<u8>> = (0..20).map(pool.key).collect();
            count_touched(plain_wire, &keys) == count_touched(subject_wire, &keys)
        }
        _ => true,
    }
}

/// Whether a reply names a key that exists, or says that there is none.
pub(crate) fn exists(wire: &mut Wire, reply: &[u8]) -> bool {
    match Value::parse(reply) {
        Ok(Value::Bulk(key)) => wire.call(&[b"EXISTS", &key]).is_ok_and(|reply| reply == b":1\r\n"),
        Ok(value) => value == Value::Nil,
        Err(_) => false,
    }
}

/// DBSIZE once the keys were touched, so that no expired one counts.
pub(crate) fn count_touched(wire: &mut Wire, keys: &[Vec<u8>]) -> Option<i64> {
    // One by one: a cluster's node refuses keys of several slots together.
    for key in keys {
        wire.send(&[b"EXISTS", key]).ok()?;
    }
    for _ in keys {
        wire.reply().ok()?;
    }
    wire.ask(&[b"DBSIZE"]).ok()?.integer()
}
