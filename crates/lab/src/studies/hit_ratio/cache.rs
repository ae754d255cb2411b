//! The server as a cache: each request reads an object, and writes it where it was not there.
//!
//! Requests go in batches: one round trip writes what the batch before missed and reads the next. An object that is
//! asked for again in the batch that missed it counts as found, as it would have been written by then.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::resp::Reply;
use keyfold_server::interrupt::{Interrupt, Interrupted};
use keyfold_server::reply::code;
use keyfold_server::{Commands, Server};

use crate::objects::{Form, Objects, Place, stored};

/// Requests to a round trip. Few, so that buffers are nothing beside the memory under study.
pub(super) const BATCH: usize = 16;
/// Lookups to a round trip, afterwards.
const LOOKUPS: usize = 500;

/// A cache under a stream of requests.
#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) form: Form,
    pub(super) objects: &'a Objects,
    /// The first half fills the cache and doesn't count.
    pub(super) requests: &'a [u32],
    /// Requests a second; none: as fast as it goes.
    pub(super) pace: Option<f64>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Of the requests that count.
    pub(super) requests: u64,
    pub(super) hits: u64,
    /// Objects written, in all, and those that were there at the end.
    pub(super) written: u64,
    pub(super) held: u64,
    /// Keys that the server evicted, in all: a bucket is one.
    pub(super) evicted_keys: u64,
    /// Writes that the server had no room for.
    pub(super) refused: u64,
    /// What keyfold's counters of keys took, in its own memory.
    pub(super) counters_bytes: u64,
    pub(super) seconds: f64,
}

impl Tally {
    pub(super) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// Objects that are gone.
    pub(super) fn evicted(&self) -> u64 {
        self.written.saturating_sub(self.held)
    }
}

/// What is done half-way, and the connections from there on, where they are others.
pub(super) type HalfWay<'a> = &'a mut dyn FnMut() -> anyhow::Result<Option<Vec<Server>>>;

/// The way to a server that is a cache.
pub(super) struct Way<'a> {
    /// Connections that lead there: batches go by them in turn.
    pub(super) clients: Vec<Server>,
    /// Before the names of keys.
    pub(super) prefix: Vec<u8>,
    /// A command that goes with each batch: it keeps the lab's own mark from being evicted.
    pub(super) mark: Commands,
    pub(super) interrupt: &'a Interrupt,
    /// When the half begins that counts.
    pub(super) half_way: Option<HalfWay<'a>>,
}

impl Way<'_> {
    /// Who is asked now.
    fn client(&mut self) -> anyhow::Result<&mut Server> {
        self.clients.first_mut().context("nothing leads to the cache")
    }
}

/// Buffers and counts while it goes on.
struct Run<'a> {
    trial: Trial<'a>,
    places: Vec<Place>,
    way: Way<'a>,
    commands: Commands,
    /// Objects to be written with the next batch.
    missed: Vec<u32>,
    tally: Tally,
}

impl<'a> Trial<'a> {
    /// Runs it on an empty server whose limits are set; `done` is told of requests.
    pub(super) fn run(self, way: Way<'a>, done: &mut dyn FnMut(usize)) -> anyhow::Result<Tally> {
        let places = self.objects.places(self.form, &way.prefix)?;
        let mut run = Run {
            trial: self,
            places,
            way,
            commands: Commands::default(),
            missed: Vec::new(),
            tally: Tally::default(),
        };
        let before = run.evicted()?;
        run.go(done)?;
        run.tally.evicted_keys = run.evicted()?.saturating_sub(before);
        run.tally.held = run.held()?;
        Ok(run.tally)
    }
}

impl Run<'_> {
    fn go(&mut self, done: &mut dyn FnMut(usize)) -> anyhow::Result<()> {
        let Trial { requests, pace, .. } = self.trial;
        let started = Instant::now();
        for (number, batch) in requests.chunks(BATCH).enumerate() {
            if self.way.interrupt.wanted() {
                return Err(Interrupted.into());
            }
            let counts = number * BATCH >= requests.len() / 2;
            if counts
                && let Some(half_way) = self.way.half_way.take()
                && let Some(clients) = half_way()?
            {
                self.way.clients = clients;
            }
            self.way.clients.rotate_left(1);
            self.round(batch, counts)?;
            done(batch.len());
            if let Some(pace) = pace {
                let due = Duration::from_secs_f64((number + 1) as f64 * BATCH as f64 / pace);
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
        }
        self.round(&[], false)?;
        self.tally.seconds = started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Writes what was missed, reads a batch.
    fn round(&mut self, batch: &[u32], counts: bool) -> anyhow::Result<()> {
        let writes = std::mem::take(&mut self.missed);
        self.commands.clear();
        self.commands.append(&self.way.mark);
        writes.iter().for_each(|object| self.write(*object));
        batch.iter().for_each(|object| self.read(*object));
        if self.commands.is_empty() {
            return Ok(());
        }
        let replies = self.way.client()?.ask_all(&self.commands)?;
        let (mark, replies) = replies.split_at(self.way.mark.len());
        for reply in mark {
            self.is_written(reply)?;
        }
        let (written, read) = replies.split_at(writes.len());
        for reply in written {
            let written = self.is_written(reply)?;
            self.tally.written += u64::from(written);
            self.tally.refused += u64::from(!written);
        }
        let mut asked = HashSet::with_capacity(batch.len());
        for (object, reply) in batch.iter().zip(read) {
            let (found, first) = (self.is_found(reply)?, asked.insert(*object));
            if !found && first {
                self.missed.push(*object);
            }
            if counts {
                self.tally.requests += 1;
                self.tally.hits += u64::from(found || !first);
            }
        }
        Ok(())
    }

    /// A read's reply.
    fn is_found(&self, reply: &[u8]) -> anyhow::Result<bool> {
        match Reply::parse(reply)? {
            Reply::Nil => Ok(false),
            Reply::Bulk(_) => Ok(true),
            Reply::Error(error) => bail!("the server refused a read: {}", error.escape_ascii()),
            other => bail!("the server answered a read by {other:?}"),
        }
    }

    /// A write's reply: only a lack of room is no failure.
    fn is_written(&self, reply: &[u8]) -> anyhow::Result<bool> {
        match Reply::parse(reply)? {
            Reply::Error(error) if code(error) == b"OOM" => Ok(false),
            Reply::Error(error) => bail!("the server refused a write: {}", error.escape_ascii()),
            _ => Ok(true),
        }
    }

    fn read(&mut self, object: u32) {
        let Place { key, field } = &self.places[object as usize];
        match field {
            Some(field) => self.commands.push(&[b"HGET", key, field]),
            None => self.commands.push(&[b"GET", key]),
        }
    }

    fn write(&mut self, object: u32) {
        let value = self.trial.objects.value(object);
        let Place { key, field } = &self.places[object as usize];
        match field {
            Some(field) => self.commands.push(&[b"HSET", key, field, &stored(value)]),
            None => self.commands.push(&[b"SET", key, value]),
        }
    }

    /// How many keys the server has evicted since it started.
    fn evicted(&mut self) -> anyhow::Result<u64> {
        self.way.client()?.info("stats")?.needed("evicted_keys")
    }

    /// How many objects are there.
    fn held(&mut self) -> anyhow::Result<u64> {
        let mut keys: Vec<(&[u8], bool)> =
            self.places.iter().map(|place| (place.key.as_slice(), place.field.is_some())).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut held = 0;
        for chunk in keys.chunks(LOOKUPS) {
            let mut looks = Commands::default();
            for (key, is_bucket) in chunk {
                looks.push(&[if *is_bucket { &b"HLEN"[..] } else { b"EXISTS" }, key]);
            }
            held += self.way.client()?.query_all::<u64>(&looks)?.iter().sum::<u64>();
        }
        Ok(held)
    }
}
