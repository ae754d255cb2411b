//! How long commands on counters take, as strings and in buckets, by how many go at a time.
//!
//! The server's own time is by INFO commandstats, which what else the machine does troubles little; the time for the
//! client is by the clock, and has its work and the way in it.

use std::time::Instant;

use anyhow::Context;

use super::Ids;
use super::form::{Form, key};
use crate::bench::Bench;
use crate::options::Options;
use crate::writer::Writer;
use keyfold_survey::random::Random;

/// Ids to a hash: where hashes by hand and keyfold's are alike.
const SIZE: u64 = 128;
/// Commands that go at a time, in the original.
pub(super) const PIPELINES: [u64; 3] = [1, 10, 100];

/// What is done with a counter, as a string and in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Read,
    Write,
    Count,
    /// Many in one MGET; as many HGETs in one pipeline.
    ReadMany,
}

/// One act on strings or in buckets.
pub(super) struct Speed {
    pub(super) act: Act,
    pub(super) in_buckets: bool,
    pub(super) pipeline: u64,
    /// The server's own time for one counter, in microseconds.
    pub(super) server_us: f64,
    /// The whole time for one counter, in microseconds.
    pub(super) clock_us: f64,
}

impl Act {
    pub(super) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Count, Self::ReadMany];

    pub(super) fn command(self, in_buckets: bool) -> &'static str {
        match (self, in_buckets) {
            (Self::Read, false) => "GET",
            (Self::Write, false) => "SET",
            (Self::Count, false) => "INCR",
            (Self::ReadMany, false) => "MGET",
            (Self::Read | Self::ReadMany, true) => "HGET",
            (Self::Write, true) => "HSET",
            (Self::Count, true) => "HINCRBY",
        }
    }

    /// Both commands, for people.
    pub(super) fn name(self) -> String {
        match self {
            Self::ReadMany => "MGET and pipelined HGET".to_owned(),
            _ => format!("{} and {}", self.command(false), self.command(true)),
        }
    }

    /// Sends it for these ids, and waits for the replies.
    fn send(self, writer: &mut Writer<'_>, in_buckets: bool, ids: &[u64]) -> anyhow::Result<()> {
        let command = self.command(in_buckets).as_bytes();
        if self == Self::ReadMany && !in_buckets {
            writer.read_all(command, &ids.iter().map(|id| key(*id)).collect::<Vec<_>>())?;
            return writer.flush();
        }
        for id in ids {
            let (hash, field) = (format!("counter:{}", id / SIZE), (id % SIZE).to_string());
            let (hash, field) = (hash.as_bytes(), field.as_bytes());
            match (self, in_buckets) {
                (Self::Read | Self::ReadMany, false) => writer.read(command, &key(*id), &[])?,
                (Self::Read | Self::ReadMany, true) => writer.read(command, hash, &[field])?,
                (Self::Write, false) => writer.on_key(command, &key(*id), &[b"7"])?,
                (Self::Write, true) => writer.on_key(command, hash, &[field, b"7"])?,
                (Self::Count, false) => writer.on_key(command, &key(*id), &[])?,
                (Self::Count, true) => writer.on_key(command, hash, &[field, b"1"])?,
            }
        }
        writer.flush()
    }
}

pub(super) fn measure(bench: &mut Bench<'_>, counters: u64, options: &Options) -> anyhow::Result<Vec<Speed>> {
    let acts = options.sized(2000, 20_000, 20_000).max(PIPELINES[2]);
    let mut random = Random::new(options.seed);
    let ids: Vec<u64> = (0..acts).map(|_| random.below(counters)).collect();
    let mut speeds = Vec::new();
    for in_buckets in [false, true] {
        let form = if in_buckets { Form::ByHand(SIZE) } else { Form::Strings };
        let physical = form.physical(&Ids::Dense.counters(counters, options.seed))?;
        bench.clear()?;
        let mut writer = bench.writer("", 0)?;
        physical.write(&mut writer)?;
        writer.flush()?;
        drop(writer);
        for act in Act::ALL {
            for pipeline in PIPELINES {
                speeds.push(time(bench, act, in_buckets, pipeline, &ids)?);
            }
        }
    }
    bench.clear()?;
    Ok(speeds)
}

fn time(bench: &mut Bench<'_>, act: Act, in_buckets: bool, pipeline: u64, ids: &[u64]) -> anyhow::Result<Speed> {
    let before_us = server_us(bench, act.command(in_buckets))?;
    let what = format!("int-buckets: {}, {pipeline} at a time", act.command(in_buckets));
    let mut writer = bench.writer(&what, ids.len() as u64)?;
    let started = Instant::now();
    for some in ids.chunks(usize::try_from(pipeline)?) {
        act.send(&mut writer, in_buckets, some)?;
    }
    let clock_us = started.elapsed().as_secs_f64() * 1e6;
    drop(writer);
    let spent_us = server_us(bench, act.command(in_buckets))? - before_us;
    let each = |us: f64| us / ids.len() as f64;
    Ok(Speed { act, in_buckets, pipeline, server_us: each(spent_us), clock_us: each(clock_us) })
}

/// Microseconds that the server has spent on a command since it counts.
fn server_us(bench: &Bench<'_>, command: &str) -> anyhow::Result<f64> {
    let spent = bench.connect()?.info("commandstats")?.spent_us(&command.to_lowercase());
    spent.with_context(|| format!("INFO commandstats tells no time of {command}"))
}
