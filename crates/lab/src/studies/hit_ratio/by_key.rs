//! A cache that keyfold keeps by the key: a server, a keyfold before it, and the client of both.
//!
//! It is given what plain keys are given: the mark is where their `maxmemory` is, less what keyfold's counters of keys take
//! in its own memory. The server's own `maxmemory` is above, as the docs advise.

use std::iter;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_core::status::Status;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::stored;
use keyfold_server::{Commands, OwnServer, Server};

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

/// A keyfold that keeps a cache.
pub(super) struct Keeper {
    through: Through,
    /// By it.
    client: Server,
    /// To the server itself.
    gauge: Server,
    layout: String,
}

impl Keeper {
    /// Begins to keep a cache with room for so many bytes of these objects, of which `fit` fit in; with a client of it.
    pub(super) fn start(
        own: &OwnServer,
        objects: &Objects,
        room_bytes: u64,
        fit: f64,
    ) -> anyhow::Result<(Self, Server)> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "entries, and bytes of counters")]
        let (entries, counters_bytes) =
            ((KEPT_ENTRIES as f64 * objects.count() as f64 / fit.max(1.0)) as u64, (fit * COUNTER_BYTES) as u64);
        let form = Form::Buckets(entries.max(1));
        let (mut gauge, layout) = (own.connect()?, objects.layout(form)?);
        let in_force = activate(&mut gauge, None, &layout)?;
        let through = Through::start(own.target(), &in_force)?;
        let client = Server::connect(through.target()).context("keyfold does not answer")?;
        let mut keeper = Self { through, client, gauge, layout: objects.layout_text(form) };
        keeper.let_something_leave(objects)?;
        let mut client = Server::connect(keeper.through.target())?;
        let empty_bytes = busy_bytes(&mut client, &mut keeper.gauge)?;
        let most = empty_bytes + room_bytes;
        set(&mut keeper.gauge, LIMIT, &(most + (most / 10).max(LEAST_ABOVE)).to_string())?;
        keeper.mark(most - counters_bytes.min(room_bytes / 2))?;
        Ok((keeper, client))
    }

    /// Has keys leave, and removes the others, so that all is there by which it is done.
    fn let_something_leave(&mut self, objects: &Objects) -> anyhow::Result<()> {
        let used = self.gauge.used_memory()?;
        self.mark(used + FIRST_BYTES)?;
        let first: Vec<u32> = (0..u32::try_from(objects.count())?.min(FIRST_OBJECTS)).collect();
        let mut rounds = first.chunks(ROUND).cycle().take(FIRST_ROUNDS);
        while self.status()?.namespaces.iter().all(|namespace| namespace.evicted == 0) {
            let round = rounds.next().with_context(|| format!("keyfold evicts nothing from {FIRST_BYTES} bytes"))?;
            let mut writes = Commands::default();
            round.iter().for_each(|object| writes.push(&[b"SET", objects.key(*object), objects.value(*object)]));
            // Some may find it full: it is meant to be.
            self.client.ask_all(&writes)?;
        }
        for round in first.chunks(ROUND) {
            let names = round.iter().map(|object| objects.key(*object));
            self.client.ask::<u64>(&iter::once(&b"DEL"[..]).chain(names).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Keeps it below so many bytes from now on.
    fn mark(&mut self, bytes: u64) -> anyhow::Result<()> {
        let before = stored::read(&mut self.gauge)?.context("the layout is gone")?;
        let text = format!("[cache]\nmax_memory = \"{bytes}\"\n{}", self.layout);
        let next = Layout::merge(Some(&before.layout), &LayoutFile::parse(&text)?)?.layout;
        activate(&mut self.gauge, Some(&before), &next)?;
        let deadline = Instant::now() + PATIENCE;
        while self.status()?.cache.is_none_or(|cache| cache.max_bytes != bytes) {
            ensure!(Instant::now() < deadline, "keyfold does not go by its cache's mark");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn status(&mut self) -> anyhow::Result<Status> {
        Status::read_info(self.client.info("keyfold")?.text()).context("keyfold does not say how it fares")
    }

    /// Ends it; what its counters took, in its own memory.
    pub(super) fn stop(mut self) -> anyhow::Result<u64> {
        let cache = self.status()?.cache.context("keyfold keeps no cache")?;
        drop(self.client);
        self.through.stop()?;
        Ok(cache.counters_bytes)
    }
}
