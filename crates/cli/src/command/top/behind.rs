//! What a server knows: who serves, which moves are open, what it holds, and by a sample what folding saves.

use std::num::NonZero;
use std::time::{Duration, Instant};

use keyfold_core::admin::move_progress::MoveProgress;
use keyfold_core::layout::Layout;
use keyfold_server::Nodes;
use keyfold_server::layout::stored;

use crate::command::status::keyfolds::Keyfolds;
use crate::command::status::saving::Savings;
use crate::moving::announce::hear;
use crate::print::layout::open_moves;

/// How often it is asked who is connected, and for the layout: a server with many clients takes a while over their list.
const CLIENTS_EVERY: Duration = Duration::from_secs(10);
/// How often a sample of its keys is looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(300);

/// What a server, or a cluster, says.
#[derive(Clone, Debug, Default)]
pub(super) struct BehindTold {
    /// Its name and version, and how many primaries of a cluster.
    pub(super) server: String,
    /// Commands a second, as it counts them.
    pub(super) per_second: u64,
    /// Keys that were read and there since its start, and those that were not.
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) clients: u64,
    pub(super) used_bytes: u64,
    pub(super) max_bytes: u64,
    /// The layout's version; none where nothing is folded.
    pub(super) epoch: Option<u64>,
    pub(super) in_doubt: bool,
    pub(super) moves: Vec<String>,
    pub(super) move_progress: Option<MoveProgress>,
    /// A line for each keyfold that is connected, and one where a tool moves keys.
    pub(super) keyfolds: Vec<String>,
    pub(super) namespaces: Vec<Sampled>,
    /// What folding saves in all, by the sample; none where that isn't known.
    pub(super) saved_bytes: Option<f64>,
}

/// A namespace by the sample.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    pub(super) keys: String,
    pub(super) count: f64,
    pub(super) saved_bytes: Option<f64>,
}

/// Asks it.
pub(super) struct Behind {
    nodes: Nodes,
    max_ops: Option<NonZero<u32>>,
    layout: Option<Layout>,
    /// What is asked for less often.
    slow: BehindTold,
    clients_at: Option<Instant>,
    sampled_at: Option<Instant>,
}

impl Behind {
    pub(super) fn new(nodes: Nodes, max_ops: Option<NonZero<u32>>) -> Self {
        Self { nodes, max_ops, layout: None, slow: BehindTold::default(), clients_at: None, sampled_at: None }
    }

    pub(super) fn look(&mut self) -> anyhow::Result<BehindTold> {
        let is_due = |at: Option<Instant>, every| at.is_none_or(|at: Instant| at.elapsed() >= every);
        if is_due(self.clients_at, CLIENTS_EVERY) {
            self.look_at_clients()?;
            self.clients_at = Some(Instant::now());
        }
        if is_due(self.sampled_at, SAMPLE_EVERY) {
            self.look_at_sample()?;
            self.sampled_at = Some(Instant::now());
        }
        let mut told = BehindTold { server: self.name(), ..self.slow.clone() };
        if !told.moves.is_empty() {
            told.move_progress = hear(self.nodes.home());
        }
        for server in self.nodes.servers() {
            let (memory, stats) = (server.info("memory")?, server.info("stats")?);
            told.used_bytes += memory.number("used_memory");
            told.max_bytes += memory.number("maxmemory");
            told.per_second += stats.number("instantaneous_ops_per_sec");
            told.hits += stats.number("keyspace_hits");
            told.misses += stats.number("keyspace_misses");
            told.clients += server.info("clients")?.number("connected_clients");
        }
        Ok(told)
    }

    fn name(&mut self) -> String {
        let version = self.nodes.first().version().to_string();
        match self.nodes.are_cluster() {
            true => format!("{version}, {} primaries", self.nodes.servers().len()),
            false => version,
        }
    }

    fn look_at_clients(&mut self) -> anyhow::Result<()> {
        self.layout = stored::read(self.nodes.home())?.map(|stored| stored.layout);
        let layout = self.layout.as_ref();
        self.slow.epoch = layout.map(|layout| layout.epoch().0);
        self.slow.in_doubt = layout.is_some_and(Layout::is_in_doubt);
        self.slow.moves = layout.map(open_moves).unwrap_or_default();
        let found = Keyfolds::ask(&mut self.nodes);
        let why_none = match found.are_hidden {
            true => Some("who serves isn't known: the server doesn't show its clients (CLIENT LIST)"),
            false => found.members.is_empty().then_some("no keyfold is connected"),
        };
        self.slow.keyfolds = why_none.map(str::to_owned).into_iter().chain(found.lines()).collect();
        Ok(())
    }

    fn look_at_sample(&mut self) -> anyhow::Result<()> {
        let savings = Savings::of(&mut self.nodes, self.layout.as_ref(), self.max_ops)?;
        self.slow.saved_bytes = savings.saved_bytes;
        let sampled = savings.namespaces.iter().map(|one| {
            let (count, now) = (one.folded.keys.value, one.folded.bytes_per_key());
            let saved_bytes = one.plain_bytes_per_key.map(|plain| (plain - now) * count);
            Sampled { keys: one.folded.name.clone(), count, saved_bytes }
        });
        self.slow.namespaces = sampled.collect();
        Ok(())
    }
}
