//! A cache that keyfold keeps by the key: a server, a keyfold before it, and the client of both.
//!
//! It is given what plain keys are given: the mark is where their `maxmemory` is, less what keyfold's counters of keys take
//! in its own memory. The server's own `maxmemory` is above, as the docs advise.

use std::time::{Duration, Instant};
use std::{iter, thread};

use anyhow::{Context, ensure};
use keyfold_core::admin::FREQUENCY_KEY;
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_core::status::Status;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::{dictionaries, stored};
use keyfold_server::{Commands, OwnServer, Server, Target};

use super::job::{Job, Keepers};
use super::own_server::{busy_bytes, set};
use super::{KEPT_ENTRIES, LIMIT};
use crate::objects::{Form, Objects};
use crate::through::Through;

/// What counters take for each key that fits, as `keyfold_cache:counters_bytes` shows afterwards.
const COUNTER_BYTES: f64 = 6.0;
/// What is held at first so that something leaves: the server takes memory for each script and command that it is sent
/// for the first time.
const FIRST_BYTES: u64 = 128 << 10;
const FIRST_OBJECTS: u32 = 20_000;
const FIRST_ROUNDS: usize = 200;
const ROUND: usize = 100;
/// The server's own `maxmemory` is a tenth above the mark, and at least so many bytes: caches are smaller here than in use,
/// but what is on its way isn't.
const LEAST_ABOVE: u64 = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// Counters are saved once a minute.
const SAVED_WITHIN: Duration = Duration::from_secs(100);

/// Keyfolds that keep a cache.
pub(super) struct Keeper {
    keepers: Keepers,
    server: Target,
    layout: Layout,
    running: Vec<Through>,
    /// To the server itself.
    gauge: Server,
    layout_text: String,
}

impl Keeper {
    /// Begins to keep a cache as the job says; with clients of it.
    pub(super) fn start(own: &OwnServer, job: &Job<'_>) -> anyhow::Result<(Self, Vec<Server>)> {
        let Job { room_bytes, fit, given, trial } = *job;
        let (objects, keepers) = (trial.objects, given.keepers);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "entries, and bytes of counters")]
        let (entries, counters_bytes) =
            ((KEPT_ENTRIES as f64 * objects.count() as f64 / fit.max(1.0)) as u64, (fit * COUNTER_BYTES) as u64);
        let form = Form::Buckets(entries.max(1));
        let (mut gauge, layout) = (own.connect()?, objects.layout(form)?);
        dictionaries::write(&mut gauge, &layout)?;
        let layout = activate(&mut gauge, None, &layout)?;
        let (server, layout_text) = (own.target().clone(), objects.layout_text(form));
        let mut keeper = Self { keepers, server, layout, running: Vec::new(), gauge, layout_text };
        keeper.run()?;
        keeper.let_something_leave(objects)?;
        let mut clients = keeper.clients()?;
        let empty_bytes = busy_bytes(&mut clients[0], &mut keeper.gauge)?;
        let most = empty_bytes + room_bytes;
        set(&mut keeper.gauge, LIMIT, &(most + (most / 10).max(LEAST_ABOVE)).to_string())?;
        let counters_bytes = counters_bytes * keepers.count() as u64;
        keeper.mark(most - counters_bytes.min(room_bytes / 2))?;
        Ok((keeper, clients))
    }

    fn run(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.keepers.count() {
            self.running.push(Through::start(&self.server, &self.layout)?);
        }
        Ok(())
    }

    /// One of each.
    fn clients(&self) -> anyhow::Result<Vec<Server>> {
        let client = |through: &Through| Server::connect(through.target()).context("keyfold does not answer");
        self.running.iter().map(client).collect()
    }

    /// What happens when the requests begin that count; clients of it from there on, where they are others.
    pub(super) fn half_way(&mut self) -> anyhow::Result<Option<Vec<Server>>> {
        match self.keepers {
            Keepers::One | Keepers::Two | Keepers::Four => return Ok(None),
            Keepers::Mindful => self.wait_until_saved()?,
            Keepers::Forgetful => {}
        }
        self.running.drain(..).try_for_each(Through::stop)?;
        if self.keepers == Keepers::Forgetful {
            self.gauge.ask::<u64>(&[b"DEL", FREQUENCY_KEY])?;
        }
        self.run()?;
        self.clients().map(Some)
    }

    /// Waits until what is counted now is saved.
    fn wait_until_saved(&mut self) -> anyhow::Result<()> {
        self.gauge.ask::<u64>(&[b"DEL", FREQUENCY_KEY])?;
        let deadline = Instant::now() + SAVED_WITHIN;
        while self.gauge.ask::<u64>(&[b"EXISTS", FREQUENCY_KEY])? == 0 {
            ensure!(Instant::now() < deadline, "keyfold does not save how often keys are asked for");
            thread::sleep(Duration::from_millis(100));
        }
        // It is written in pieces.
        thread::sleep(Duration::from_secs(1));
        Ok(())
    }

    /// Has keys leave, and removes the others, so that all is there by which it is done.
    fn let_something_leave(&mut self, objects: &Objects) -> anyhow::Result<()> {
        let used = self.gauge.used_memory()?;
        self.mark(used + FIRST_BYTES)?;
        let first: Vec<u32> = (0..u32::try_from(objects.count())?.min(FIRST_OBJECTS)).collect();
        let mut rounds = first.chunks(ROUND).cycle().take(FIRST_ROUNDS);
        let mut clients = self.clients()?;
        while self.statuses()?.iter().flat_map(|status| &status.namespaces).all(|namespace| namespace.evicted == 0) {
            let round = rounds.next().with_context(|| format!("keyfold evicts nothing from {FIRST_BYTES} bytes"))?;
            let mut writes = Commands::default();
            round.iter().for_each(|object| writes.push(&[b"SET", objects.key(*object), objects.value(*object)]));
            // Some may find it full: it is meant to be.
            clients[0].ask_all(&writes)?;
        }
        for round in first.chunks(ROUND) {
            let names = round.iter().map(|object| objects.key(*object));
            clients[0].ask::<u64>(&iter::once(&b"DEL"[..]).chain(names).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Keeps it below so many bytes from now on.
    fn mark(&mut self, bytes: u64) -> anyhow::Result<()> {
        let before = stored::read(&mut self.gauge)?.context("the layout is gone")?;
        let text = format!("[cache]\nmax_memory = \"{bytes}\"\n{}", self.layout_text);
        let next = Layout::merge(Some(&before.layout), &LayoutFile::parse(&text)?)?.layout;
        self.layout = activate(&mut self.gauge, Some(&before), &next)?;
        let deadline = Instant::now() + PATIENCE;
        let follows = |status: &Status| status.cache.as_ref().is_some_and(|cache| cache.max_bytes == bytes);
        while !self.statuses()?.iter().all(follows) {
            ensure!(Instant::now() < deadline, "keyfold does not go by its cache's mark");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// How all of them fare.
    fn statuses(&self) -> anyhow::Result<Vec<Status>> {
        let status = |client: &mut Server| {
            Status::read_info(client.info("keyfold")?.text()).context("keyfold does not say how it fares")
        };
        self.clients()?.iter_mut().map(status).collect()
    }

    /// Ends it; what its counters took, in its own memory.
    pub(super) fn stop(mut self) -> anyhow::Result<u64> {
        let caches = self.statuses()?.into_iter().map(|status| status.cache.context("keyfold keeps no cache"));
        let counters = caches.map(|cache| Ok(cache?.counters_bytes)).sum::<anyhow::Result<u64>>()?;
        self.running.drain(..).try_for_each(Through::stop)?;
        Ok(counters)
    }
}
