//! `keyfold import`: a dump's keys to where the server's layout places them.
//!
//! The core's own SET and RESTORE write each key, as they do for clients of the proxy, so that an import may run
//! beside proxies: absent keys by HSETNX or compare-and-set, spilled values together with what points to them.

mod report;
mod task;

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::collection::FieldExpiryForm;
use keyfold_core::dialect::Dialect;
use keyfold_core::layout::Layout;
use keyfold_report::paper::Paper;
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::pace::Pace;
use keyfold_server::priority;
use keyfold_server::{Nodes, Server};

use self::report::Report;
use self::task::{Fate, Item, Outcome, Target, Task};
use crate::config::import::{Import, Mode};
use crate::layout::evidence::layout_in_force;
use crate::layout::writer;
use crate::records::digest;
use crate::records::dump::Reader;
use crate::records::logical::Logical;
use crate::records::walk::check_layout;
use crate::scan;

/// Keys under way at most, and bytes of their values.
const KEYS_AT_ONCE: usize = 512;
const BYTES_AT_ONCE: usize = 16 << 20;
/// How often the server's layout is looked at: what is written must lie where clients look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

pub(crate) fn run(config: &Import, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    priority::give_way();
    let mut nodes = Nodes::connect(&config.target)?;
    scan::warn(&nodes);
    if !nodes.are_cluster() {
        writer::enter(nodes.first())?;
    }
    let mut watcher = Watcher::start(Nodes::connect(&config.target)?)?;
    let layout = watcher.layout.clone().unwrap_or_default();
    if nodes.are_cluster() {
        check_layout(&layout)?;
    }
    let mut reader = Reader::open(&config.flags.file)?.by_hand(config.flags.without_end);
    let mut beside = Watcher { nodes: nodes.again()?, layout: watcher.layout.clone(), looked: Instant::now() };
    let prepare = Box::new(move |server: &mut Server| beside.enter(server));
    let target = target(&mut nodes);
    let mut work = Work {
        config,
        layout: &layout,
        target,
        logical: Logical::new(&mut nodes, &layout, prepare)?,
        database: 0,
        under_way: Keys::default(),
        refused: VecDeque::new(),
        report: Report::new(config.flags.list, &layout),
    };
    let done = work.import(&mut reader, &mut watcher, &interrupt);
    let mut report = work.report;
    report.sort();
    if let Err(error) = done {
        let state = report.state();
        return Err(error.context(format!("the import stopped: {state}; run it again to go on")));
    }
    report.print(config, out)
}

fn target(nodes: &mut Nodes) -> Target {
    let servers = nodes.servers();
    let infos: Vec<_> = servers.iter().map(|server| server.version().info()).collect();
    let dialects: Vec<_> = infos.iter().map(|info| Dialect::new(info, false)).collect();
    Target {
        has_pexpiretime: servers.iter().all(|server| server.version().has_pexpiretime()),
        has_field_expiry: dialects.iter().all(|dialect| dialect.has_field_expiry()),
        field_expiry_form: dialects.first().map_or(FieldExpiryForm::Redis, |dialect| dialect.field_expiry_form()),
    }
}

/// An import under way.
struct Work<'a> {
    config: &'a Import,
    layout: &'a Layout,
    target: Target,
    logical: Logical<'a, Task>,
    database: u32,
    under_way: Keys,
    /// What the server has refused to write, of those, with its errors.
    refused: VecDeque<(Item, String)>,
    report: Report,
}

/// The keys under way: no two commands on one key may be.
#[derive(Default)]
struct Keys {
    digests: HashSet<u128>,
    bytes: usize,
}

impl Work<'_> {
    fn import(&mut self, reader: &mut Reader, watcher: &mut Watcher, interrupt: &Interrupt) -> anyhow::Result<()> {
        let mut pace = Pace::new(self.config.flags.pace.max_ops);
        let keys_at_once = usize::try_from(pace.burst()).map_or(KEYS_AT_ONCE, |burst| burst.min(KEYS_AT_ONCE));
        let mut progress = Progress::new("imported, bytes of the dump", file_bytes(&self.config.flags.file));
        loop {
            while self.under_way.digests.len() < keys_at_once && self.under_way.bytes < BYTES_AT_ONCE {
                let next = reader.next();
                if !matches!(next, Ok(Some(_))) {
                    self.wait_for_all(reader)?;
                }
                let Some((line, mut record)) = next? else {
                    self.report.may_be_cut_off = !reader.is_whole();
                    return watcher.look();
                };
                record.database = self.config.database.unwrap_or(record.database);
                progress.advance(reader.take_bytes());
                self.begin(Item::new(line, record), reader)?;
            }
            if interrupt.wanted() {
                self.wait_for_all(reader)?;
                bail!("interrupted");
            }
            watcher.look_now_and_then()?;
            while self.under_way.digests.len() > keys_at_once / 2 || self.under_way.bytes > BYTES_AT_ONCE / 2 {
                self.settle_one(reader)?;
            }
            pace.spend(self.logical.take_commands());
        }
    }

    /// Begins a record, unless there is nothing to write.
    fn begin(&mut self, item: Item, reader: &Reader) -> anyhow::Result<()> {
        self.report.records += 1;
        if item.record.expires_at_ms.is_some_and(|at| at <= self.logical.now_ms()) {
            self.report.expired += 1;
            return Ok(());
        }
        if item.record.database != self.database {
            self.wait_for_all(reader)?;
            self.database = item.record.database;
            self.logical.select(self.database).with_context(|| reader.at(item.line))?;
        }
        let digest = digest::key(item.record.database, &item.record.key);
        if self.under_way.digests.contains(&digest) {
            self.wait_for_all(reader)?;
        }
        self.under_way.digests.insert(digest);
        self.under_way.bytes += item.bytes;
        let task = if self.config.mode == Mode::DryRun { Task::Exists(item) } else { Task::Write(item) };
        self.ask(task)
    }

    fn ask(&mut self, task: Task) -> anyhow::Result<()> {
        // The arguments borrow the task, which moves.
        let command = task.command(self.config.mode == Mode::Replace, self.target);
        let args: Vec<Vec<u8>> = command.into_iter().map(Cow::into_owned).collect();
        self.logical.begin(&args.iter().map(Vec::as_slice).collect::<Vec<_>>(), task)
    }

    fn wait_for_all(&mut self, reader: &Reader) -> anyhow::Result<()> {
        while self.logical.under_way() > 0 || !self.refused.is_empty() {
            self.settle_one(reader)?;
        }
        Ok(())
    }

    /// Takes one answer, and asks on where it doesn't settle the key.
    fn settle_one(&mut self, reader: &Reader) -> anyhow::Result<()> {
        self.rewrite_refused()?;
        let Some((task, answer)) = self.logical.answer()? else { return Ok(()) };
        let place = reader.at(task.item().line);
        match task.take(&answer, self.logical.now_ms(), self.target).context(place)? {
            Fate::Ask(task) => return self.ask(task),
            Fate::Refused(item, error) => self.refused.push_back((item, error)),
            Fate::Settled(item, outcome) => self.settle(&item, outcome),
        }
        Ok(())
    }

    /// Writes once more what was refused, as much at a time as there is room for, and at least one.
    fn rewrite_refused(&mut self) -> anyhow::Result<()> {
        while self.under_way.bytes < BYTES_AT_ONCE || self.logical.under_way() == 0 {
            let Some((mut item, error)) = self.refused.pop_front() else { return Ok(()) };
            let bytes = item.bytes;
            if item.make_portable(self.target) {
                self.under_way.bytes = self.under_way.bytes - bytes + item.bytes;
                self.ask(Task::Write(item))?;
            } else {
                let outcome = Outcome::Refused(item.reason(error, self.target));
                self.settle(&item, outcome);
            }
        }
        Ok(())
    }

    fn settle(&mut self, item: &Item, outcome: Outcome) {
        self.under_way.digests.remove(&digest::key(item.record.database, &item.record.key));
        self.under_way.bytes -= item.bytes;
        self.report.add(item, outcome, self.layout);
    }
}

/// Looks whether the server's layout is still the one that keys are placed by.
struct Watcher {
    nodes: Nodes,
    layout: Option<Layout>,
    looked: Instant,
}

impl Watcher {
    fn start(mut nodes: Nodes) -> anyhow::Result<Self> {
        let layout = layout_in_force(&mut nodes)?;
        Ok(Self { nodes, layout, looked: Instant::now() })
    }

    /// Makes a connection to a node of a cluster a writer's, as long as the layout is still this one.
    fn enter(&mut self, server: &mut Server) -> anyhow::Result<()> {
        writer::name(server)?;
        self.nodes = self.nodes.again()?;
        writer::wait_while_held(self.nodes.home())?;
        self.look()
    }

    fn look_now_and_then(&mut self) -> anyhow::Result<()> {
        if self.looked.elapsed() < LOOK_EVERY { Ok(()) } else { self.look() }
    }

    fn look(&mut self) -> anyhow::Result<()> {
        self.looked = Instant::now();
        let read = match stored::read(self.nodes.home()) {
            // The node that had the layout's slot may have lost it, or be gone.
            Err(_) if self.nodes.are_cluster() => {
                self.nodes = self.nodes.again()?;
                stored::read(self.nodes.home())?
            }
            read => read?,
        };
        if read.map(|stored| stored.layout) != self.layout {
            bail!("the server's layout changed meanwhile; what was just written may lie where clients don't look");
        }
        Ok(())
    }
}

fn file_bytes(path: &Path) -> usize {
    std::fs::metadata(path).map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX))
}
