//! The story of a cluster: plain keys under load are planned and folded, slots move, and a primary is killed.

mod load;
mod page;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::layout::Layout;
use keyfold_core::slot::Slot;
use keyfold_lab::data_sets::records::{DataSet, Record};
use keyfold_lab::load::{read_back, write};
use keyfold_lab::through::Through;
use keyfold_report::number::{count, plural, size};
use keyfold_report::paper::Paper;
use keyfold_report::table;
use keyfold_server::{OwnCluster, Server, listpack};

use super::clients::Answers;
use super::story::watch::{Reading, Watch};
use super::story::{Phase, Teller};
use crate::layout::file;
use load::{Load, Outcome};

const PRIMARIES: usize = 3;
/// How long the load goes on before anything happens, and after each event.
const CALM: Duration = Duration::from_secs(4);
/// Slots that move.
const MOVED: u16 = 1000;
/// What was acknowledged so long before a primary died may not have reached its replica.
const LAG: Duration = Duration::from_secs(3);

/// What is to be told.
pub(crate) struct ClusterStory<'a> {
    pub(crate) sets: &'a [DataSet],
    pub(crate) server: Option<&'a Path>,
    /// Where the page goes.
    pub(crate) html: &'a Path,
}

/// Something that happened, and when.
struct Event {
    what: &'static str,
    at: Duration,
}

/// All that was seen.
struct Told {
    server: String,
    keys: u64,
    /// By primary: `used_memory` of the empty node, with plain keys, and folded.
    memory: Vec<[u64; 3]>,
    events: Vec<Event>,
    phases: Vec<Phase>,
    outcome: Outcome,
    /// By node.
    readings: Vec<Vec<Reading>>,
    /// What was run, and what it printed.
    commands: Vec<(String, String)>,
}

impl Told {
    /// What all primaries hold, plain and folded, less what they take while they are empty.
    fn sums(&self) -> [u64; 2] {
        [1, 2].map(|at| self.memory.iter().map(|node| node[at].saturating_sub(node[0])).sum())
    }

    fn ratio(&self) -> f64 {
        let [plain, folded] = self.sums();
        plain as f64 / folded.max(1) as f64
    }
}

/// Tells it.
///
/// # Errors
/// A command failed, or an answer was wrong.
pub(crate) fn tell(story: &ClusterStory<'_>, out: &mut Paper) -> anyhow::Result<()> {
    let cluster = OwnCluster::start(story.server, PRIMARIES, &[])?;
    let target = cluster.target();
    let server = cluster.connect(0)?.version().to_string();
    let keys = story.sets.iter().map(|set| set.records.len() as u64).sum();
    writeln!(out, "{server}: a cluster of {PRIMARIES} primaries with a replica each")?;
    let empty = memory(&cluster)?;

    writeln!(out, "writing {} as plain keys", plural(keys, "key"))?;
    let proxy = Through::start(&target, &Layout::default())?;
    let records = fill(&proxy, story.sets)?;
    let plain = memory(&cluster)?;
    let folder = tempfile::tempdir().context("can't make a folder for the layout")?;
    let layout = folder.path().join("layout.toml");
    let teller = Teller::new(target.address.to_string(), folder.path());

    writeln!(out, "clients read and write through keyfold from now on, and check every answer\n")?;
    let started = Instant::now();
    let watches = (0..cluster.size()).map(|node| Watch::start_until_gone(cluster.connect(node)?, started));
    let watches = watches.collect::<anyhow::Result<Vec<_>>>()?;
    let load = Load::start(proxy.target(), records, started)?;
    let (events, phases) = (Vec::new(), Vec::new());
    let mut course = Course { cluster, started, events, phases, teller, layout: &layout, out };
    let folded = course.run()?;
    let Course { cluster, events, phases, teller, out, .. } = course;
    let outcome = load.stop()?;
    let readings = watches.into_iter().map(Watch::stop).collect::<anyhow::Result<_>>()?;
    // One of the nodes is gone.
    let mut teller = teller.at(cluster.target().address.to_string());
    teller.run(&["verify"], &[], out)?;
    proxy.stop()?;
    drop(cluster);
    let phases =
        phases.into_iter().map(|(name, from, to)| Phase::of(name, from, to, &outcome.answers.samples)).collect();
    let memory = (0..PRIMARIES).map(|node| [empty[node], plain[node], folded[node]]).collect();
    let seen = Told { server, keys, memory, events, phases, outcome, readings, commands: teller.commands };
    conclude(story, &seen, out)
}

/// What happens while the load goes on.
struct Course<'a> {
    cluster: OwnCluster,
    started: Instant,
    events: Vec<Event>,
    phases: Vec<(&'static str, Duration, Duration)>,
    teller: Teller,
    /// Where the layout goes.
    layout: &'a Path,
    out: &'a mut Paper,
}

impl Course<'_> {
    /// Says what the primaries hold once all is folded.
    fn run(&mut self) -> anyhow::Result<Vec<u64>> {
        self.calm("before")?;
        let layout = self.layout.to_string_lossy().into_owned();
        self.teller.run(&["plan"], &["--out", &layout], self.out)?;
        self.raise_limits()?;
        self.phase("folding", |course| {
            course.happen("fold begins");
            course.teller.run(&["fold"], &["--layout", &layout, "--yes"], course.out)
        })?;
        self.happen("folded");
        self.calm("folded")?;
        let folded = memory(&self.cluster)?;
        let first = self.cluster.owner(Slot::FIRST)?;
        self.phase("slots move", |course| {
            writeln!(course.out, "{MOVED} slots move to another primary, key by key")?;
            course.happen("slots move");
            course.cluster.move_slots(0..=MOVED - 1, (first + 1) % PRIMARIES)
        })?;
        self.calm("in between")?;
        self.phase("a primary is dead", |course| {
            let victim = course.cluster.owner(Slot::LAST)?;
            writeln!(course.out, "a primary is killed (SIGKILL), and its replica has to take over")?;
            course.happen("primary killed");
            course.cluster.kill(victim)?;
            course.await_successor()
        })?;
        self.happen("replica took over");
        self.calm("after")?;
        Ok(folded)
    }

    /// Sets what the layout needs at all nodes, replicas too: they hold buckets as well, and may become primaries.
    fn raise_limits(&mut self) -> anyhow::Result<()> {
        let layout = file::alone(&file::read(self.layout)?)?;
        for node in 0..self.cluster.size() {
            for setting in listpack::raise(&mut self.cluster.connect(node)?, &layout)? {
                writeln!(self.out, "node {node}: set {setting}, as the layout needs it")?;
            }
        }
        Ok(())
    }

    fn happen(&mut self, what: &'static str) {
        self.events.push(Event { what, at: self.started.elapsed() });
    }

    fn calm(&mut self, name: &'static str) -> anyhow::Result<()> {
        self.phase(name, |_| {
            thread::sleep(CALM);
            Ok(())
        })
    }

    fn phase(&mut self, name: &'static str, body: impl FnOnce(&mut Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let from = self.started.elapsed();
        body(self)?;
        self.phases.push((name, from, self.started.elapsed()));
        Ok(())
    }

    fn await_successor(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.cluster.owner(Slot::LAST).is_err() {
            if Instant::now() > deadline {
                bail!("no replica took over within a minute");
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.cluster.wait_until_whole()
    }
}

/// Writes all records through a keyfold, and reads them back: looking at every key settles the tables of keys too.
fn fill(proxy: &Through, sets: &[DataSet]) -> anyhow::Result<Vec<Record>> {
    let written = Instant::now();
    let mut client = Server::connect(proxy.target())?;
    for set in sets {
        write(&mut client, &set.name, &set.records, "plain")?;
        read_back(&mut client, &set.name, &set.records, written)?;
    }
    Ok(sets.iter().flat_map(|set| set.records.iter().cloned()).collect())
}

/// `used_memory` of each primary.
fn memory(cluster: &OwnCluster) -> anyhow::Result<Vec<u64>> {
    (0..PRIMARIES).map(|node| cluster.connect(node)?.used_memory()).collect()
}

fn conclude(story: &ClusterStory<'_>, seen: &Told, out: &mut Paper) -> anyhow::Result<()> {
    let [plain, folded] = seen.sums();
    writeln!(
        out,
        "memory of the keys on all primaries: {} plain, {} folded, {:.1} times less\n",
        size(plain),
        size(folded),
        seen.ratio()
    )?;
    writeln!(
        out,
        "{}\n",
        table::render(&page::heads(), seen.phases.iter().map(|phase| page::row(phase, seen)), out.room())
    )?;
    fs::write(story.html, page::page(seen)).with_context(|| format!("can't write {}", story.html.display()))?;
    writeln!(out, "the same over time: {}", story.html.display())?;
    let Outcome { answers: Answers { samples, wrong, told, .. }, refused, lost } = &seen.outcome;
    let killed =
        seen.events.iter().find(|event| event.what == "primary killed").map_or(Duration::ZERO, |event| event.at);
    let unexcused = lost.iter().filter(|acked| **acked + LAG < killed || **acked > killed + LAG).count();
    if *wrong > 0 || unexcused > 0 {
        bail!("{} answers were wrong:\n  {}", *wrong + unexcused as u64, told.join("\n  "));
    }
    writeln!(
        out,
        "{} answered, none wrong; {} refused or unanswered while their node was away; {} that the dead primary had \
         acknowledged had not reached its replica; every key there at the end",
        plural(samples.len() as u64, "command"),
        count(refused.len() as u64),
        plural(lost.len() as u64, "write"),
    )?;
    Ok(())
}
