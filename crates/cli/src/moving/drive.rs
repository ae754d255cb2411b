//! Drives the core's mover over all databases of a server, or of all primaries of a cluster, until a walk finds nothing more
//! to move.

use std::time::{Duration, Instant};
use std::{mem, thread};

use anyhow::{Context as _, bail};
use keyfold_core::cluster::Redirect;
use keyfold_core::drive::Context;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::mover::{Moved, Mover};
use keyfold_proxy::Nonces;
use keyfold_report::number::{plural, size};
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, Server, ServerTime};

use super::announce::Announcer;
use super::others::Others;
use super::pass::{Hindrance, Pass};
use super::stays::Stays;
use crate::layout::keys;
use crate::scan::{Database, Round};

/// How often the server is asked for its memory, and for its time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A walk finds what was written in old places since the one before: nothing soon, unless somebody goes on with it.
const MOST_WALKS: u32 = 8;

/// So long a cluster that is resharded, or fails over, may keep a move from being settled; and so many passes at the least.
const PATIENCE: Duration = Duration::from_secs(60);
const LEAST_DOUBTS: u32 = 3;
/// Between two such passes.
const REST: Duration = Duration::from_millis(500);
const NAP: Duration = Duration::from_millis(50);

/// A move rests so many times as long as it has worked, where others use the server.
const RESTS: u32 = 2;

/// Batches that a server gets together where nobody else waits for it: it goes on while this side writes and reads.
const AT_ONCE: usize = 4;

/// What is true whenever a tool ends before it is done.
const RUN_AGAIN: &str = "what has been moved stays moved, and all keys are reachable; run it again to go on";

/// What a walk over everything found.
#[derive(Debug, Default)]
struct Walked {
    moved: Moved,
    /// The first keys that stay.
    stays: Vec<Stays>,
}

/// What a move has done.
#[derive(Debug, Default)]
pub(crate) struct Driven {
    pub(crate) moved: u64,
    /// Values that the last walk looked at, where they are stored again.
    pub(crate) seen: u64,
    pub(crate) expired: u64,
    /// What stays in old places, by the last walk.
    pub(crate) left: Moved,
    /// The first keys that do.
    pub(crate) stays: Vec<Stays>,
    /// The most that `used_memory` was.
    pub(crate) peak_bytes: u64,
    pub(crate) took: Duration,
    /// Why the last pass over a cluster doesn't prove that nothing is left.
    pub(crate) unproven: Option<String>,
}

impl Driven {
    /// Whether nothing is left, anywhere, and nothing comes back.
    pub(crate) fn is_proof(&self) -> bool {
        self.left.left_count == 0 && self.unproven.is_none()
    }

    /// Whether nothing of this namespace is left, and nothing comes back.
    pub(crate) fn is_proof_of(&self, namespace: NamespaceIndex) -> bool {
        !self.left.left_in.contains(&namespace) && self.unproven.is_none()
    }
}

/// Moves all keys of the namespaces that move under `layout`, which is in force.
pub(crate) fn drive(
    nodes: &mut Nodes,
    layout: &Layout,
    keys: u64,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Driven> {
    let pattern = keys::pattern_of_moves(layout);
    let progress = Progress::new("moved keys", usize::try_from(keys).unwrap_or(usize::MAX));
    let telling = Telling { progress, announcer: Announcer::new(nodes, keys) };
    run(nodes, layout, &|| Mover::new(&pattern), telling, pace, interrupt)
}

/// Stores the values of these namespaces again that another codec wrote than the one that `layout`, which is in
/// force, says.
pub(crate) fn recode(
    nodes: &mut Nodes,
    layout: &Layout,
    namespaces: &[NamespaceIndex],
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Driven> {
    let telling = Telling { progress: Progress::new("values stored again", 0), announcer: Announcer::silent() };
    run(nodes, layout, &|| Mover::recode(namespaces.to_vec()), telling, pace, interrupt)
}

fn run(
    nodes: &mut Nodes,
    layout: &Layout,
    mover: &dyn Fn() -> Mover,
    telling: Telling,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Driven> {
    let mut driver = Driver {
        layout,
        nonces: Nonces::new().context("the system has no randomness to give")?,
        pace,
        interrupt,
        mover,
        telling,
        looked: None,
        used_bytes: Vec::new(),
        done: Driven::default(),
    };
    let started = Instant::now();
    if nodes.are_cluster() {
        driver.over_cluster(nodes)?;
    } else {
        driver.over_one(nodes.first())?;
    }
    driver.telling.announcer.end();
    Ok(Driven { took: started.elapsed(), ..driver.done })
}

/// Who is told how far it is: whoever sits before this terminal, and keyfolds.
struct Telling {
    progress: Progress,
    announcer: Announcer,
}

struct Driver<'a> {
    layout: &'a Layout,
    nonces: Nonces,
    pace: &'a mut Pace,
    interrupt: &'a Interrupt,
    /// Begins a walk.
    mover: &'a dyn Fn() -> Mover,
    telling: Telling,
    /// When the memory was looked at last.
    looked: Option<Instant>,
    /// `used_memory` of each server, as it was last.
    used_bytes: Vec<u64>,
    done: Driven,
}

impl Driver<'_> {
    /// Walks over one server until a walk finds nothing.
    fn over_one(&mut self, server: &mut Server) -> anyhow::Result<()> {
        self.used_bytes = vec![0];
        let mut walks = 1;
        loop {
            let mut walked = Walked::default();
            self.walk_over(0, server, &mut walked).map_err(Hindrance::into_error)?;
            let found = self.take(walked);
            if found == 0 {
                return Ok(());
            }
            if walks == MOST_WALKS {
                bail!(written_past(found, walks));
            }
            walks += 1;
        }
    }

    /// Walks over all primaries of a cluster until a pass finds nothing and proves that there is nothing.
    fn over_cluster(&mut self, nodes: &Nodes) -> anyhow::Result<()> {
        let mut walks = 0;
        let mut doubts: Option<Doubts> = None;
        loop {
            let is_around = doubts.as_ref().is_some_and(|doubts| doubts.is_around);
            let doubt = match self.pass(nodes, is_around) {
                Ok(Passed::Done) => return Ok(()),
                Ok(Passed::Found(found)) => {
                    (walks, doubts) = (walks + 1, None);
                    if walks == MOST_WALKS {
                        bail!(written_past(found, walks));
                    }
                    continue;
                }
                Ok(Passed::Doubtful(doubt)) => Ok(doubt),
                Err(Hindrance::ForNow(error)) => Err(error),
                Err(Hindrance::ForGood(error)) => return Err(error),
            };
            let doubts = doubts.get_or_insert_with(Doubts::new);
            if doubts.are_enough() {
                self.done.unproven = Some(doubt.map_err(|error| error.context(RUN_AGAIN))?);
                return Ok(());
            }
            doubts.is_around = doubt.is_ok() && self.done.left.moved == 0;
            doubts.note(doubt.unwrap_or_else(|error| format!("{error:#}")));
            self.rest()?;
        }
    }

    /// One walk over all primaries. Where the last one found nothing, none begins before it may prove something.
    fn pass(&mut self, nodes: &Nodes, is_around: bool) -> Result<Passed, Hindrance> {
        let mut pass = Pass::begin(nodes, self.layout)?;
        if is_around && let Some(doubt) = pass.doubt_before() {
            return Ok(Passed::Doubtful(doubt));
        }
        let mut walked = Walked::default();
        self.used_bytes.resize(pass.nodes().servers().len(), 0);
        for node in 0..self.used_bytes.len() {
            let led_before = walked.moved.led_elsewhere;
            let of_node = self.walk_over(node, &mut pass.nodes().servers()[node], &mut walked);
            pass.note(node, walked.moved.led_elsewhere - led_before);
            if let Err(hindrance) = of_node {
                // What has been moved counts, and what stays is not known.
                self.done.moved += walked.moved.moved;
                return Err(hindrance);
            }
        }
        let found = self.take(walked);
        if found == 0 && !self.settles_any() {
            return Ok(Passed::Done);
        }
        if found > 0 {
            let doubt = pass.doubt()?;
            return Ok(doubt.map_or(Passed::Found(found), Passed::Doubtful));
        }
        Ok(pass.end()?.map_or(Passed::Done, Passed::Doubtful))
    }

    /// Whether something hangs on what the last walk proves.
    fn settles_any(&self) -> bool {
        let left = &self.done.left;
        left.left_count == 0
            || self.layout.iter().any(|(index, namespace)| namespace.is_moving() && !left.left_in.contains(&index))
    }

    /// One walk over all databases of a server.
    fn walk_over(&mut self, node: usize, server: &mut Server, walked: &mut Walked) -> Result<(), Hindrance> {
        let mut round = Round::all(server)?;
        while let Some(Database { number, .. }) = round.enter_next(server)? {
            let mut mover = (self.mover)();
            if server.version().is_cluster() {
                mover = mover.on_node();
            }
            let result = self.walk(node, server, &mut mover);
            let moved = mover.moved();
            let stays = moved.left.iter().cloned();
            walked.stays.extend(stays.map(|(key, why)| Stays { database: number, key, why }));
            let sum = &mut walked.moved;
            sum.moved += moved.moved;
            sum.seen += moved.seen;
            sum.members += moved.members;
            sum.led_elsewhere += moved.led_elsewhere;
            sum.left_count += moved.left_count;
            sum.left_in.extend(&moved.left_in);
            sum.without_key += moved.without_key;
            self.done.expired += moved.expired;
            result?;
        }
        Ok(())
    }

    /// Notes what a walk over everything found; how many keys that were to move.
    fn take(&mut self, Walked { moved: walked, stays }: Walked) -> u64 {
        let found = walked.moved;
        self.done.moved += found;
        self.done.seen = walked.seen;
        (self.done.left, self.done.stays) = (walked, stays);
        found
    }

    fn walk(&mut self, node: usize, server: &mut Server, mover: &mut Mover) -> Result<(), Hindrance> {
        let mut time = ServerTime::ask(server)?;
        let context = Context::new(self.layout, server.version().info());
        let mut others = Others::new();
        let mut wire = Vec::new();
        let (mut shown, mut members) = (0, 0);
        loop {
            self.check_interrupt().map_err(Hindrance::ForGood)?;
            if time.age() > LOOK_EVERY {
                // It may have been put back: what expires goes by the server's clock as it is.
                time = ServerTime::ask(server)?;
            }
            let mut draw = || self.nonces.draw();
            let mut env = context.env(time.now_ms(), &mut draw);
            wire.clear();
            let share = others.are_there(server)?;
            mover.keep_short(share);
            let Some(count) = mover.next(&mut env, &mut wire) else { return Ok(()) };
            others.note_own(wire.len());
            let began = Instant::now();
            server.send(&wire, count as u64)?;
            let mut batches = vec![count];
            while !share && self.pace.is_free() && batches.len() < AT_ONCE {
                wire.clear();
                if !mover.next_ahead(&env, &mut wire) {
                    break;
                }
                others.note_own(wire.len());
                server.send(&wire, 1)?;
                batches.push(1);
            }
            let mut took = Duration::ZERO;
            for count in batches {
                let replies = (0..count).map(|_| server.receive()).collect::<anyhow::Result<Vec<_>>>()?;
                took = began.elapsed();
                mover.handle_replies(&replies, &mut env).map_err(|error| refused(server, &error))?;
            }
            let moved = mover.moved().moved;
            self.telling.progress.advance(usize::try_from(moved - shown).unwrap_or(0));
            self.telling.announcer.advance(moved - shown);
            let brought = mem::replace(&mut members, mover.moved().members);
            self.pace.spend(count as u64 + 6 * (moved - shown) + 2 * (members - brought));
            if share && self.pace.is_free() {
                // Whoever waits has the server for longer.
                thread::sleep(took * RESTS);
            }
            shown = moved;
            self.look(node, server)?;
        }
    }

    fn check_interrupt(&self) -> anyhow::Result<()> {
        if self.interrupt.wanted() {
            bail!("interrupted; what has been moved stays moved, and all keys are reachable. Run it again to go on");
        }
        Ok(())
    }

    /// Until nodes may have come to agree.
    fn rest(&self) -> anyhow::Result<()> {
        let since = Instant::now();
        while since.elapsed() < REST {
            self.check_interrupt()?;
            thread::sleep(NAP);
        }
        Ok(())
    }

    /// Cluster nodes are looked at as they are walked over; what the others take is what they took last.
    fn look(&mut self, node: usize, server: &mut Server) -> anyhow::Result<()> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) && self.used_bytes[node] > 0 {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        self.used_bytes[node] = server.used_memory()?;
        let used = self.used_bytes.iter().sum();
        self.done.peak_bytes = self.done.peak_bytes.max(used);
        self.telling.progress.note(format!(", memory {}", size(used)));
        Ok(())
    }
}

/// Passes over a cluster that didn't count, one after the other.
struct Doubts {
    since: Instant,
    passes: u32,
    /// What was said of the last one.
    said: String,
    /// The last one came around, and found nothing.
    is_around: bool,
}

impl Doubts {
    fn new() -> Self {
        Self { since: Instant::now(), passes: 0, said: String::new(), is_around: false }
    }

    fn are_enough(&self) -> bool {
        self.since.elapsed() > PATIENCE && self.passes >= LEAST_DOUBTS
    }

    fn note(&mut self, doubt: String) {
        self.passes += 1;
        if self.said != doubt {
            tracing::info!("not all is known of all keys yet: {doubt}");
            self.said = doubt;
        }
    }
}

/// What a pass over a cluster came to.
enum Passed {
    /// Nothing is left but what stays, and comes back by no failover.
    Done,
    /// So many keys were found, while nothing else happened.
    Found(u64),
    /// It doesn't count, and why.
    Doubtful(String),
}

/// A node that is no primary any more, or not yet, or whose cluster is down, may be asked later; other errors are for a
/// person.
fn refused(server: &Server, error: &str) -> Hindrance {
    let is_over_soon = server.version().is_cluster() && Redirect::read(format!("-{error}").as_bytes()).is_some();
    let error = anyhow::anyhow!(
        "the server at {} refuses to go on: {}; what has been moved stays moved, and all keys are reachable. Mend it \
         and run the same command again",
        server.address(),
        error.trim_end()
    );
    if is_over_soon { Hindrance::ForNow(error) } else { Hindrance::ForGood(error) }
}

fn written_past(found: u64, walks: u32) -> String {
    format!(
        "{} found in old places by walk {walks} still: somebody goes on writing past keyfold. What has been moved stays \
         moved, and all keys are reachable; point those clients to keyfold (CLIENT LIST on the server names them), and \
         run it again to go on",
        plural(found, "key")
    )
}
