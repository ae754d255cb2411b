//! The walk over a live server's keys: SCAN, and what the server says of each key, without writing.
//!
//! A page is what one SCAN gives. Its keys are asked about in batches of pipelined commands; those of one stage
//! need the answers of the one before:
//!
//! | stage | for | commands |
//! | --- | --- | --- |
//! | 1 | every key, with the next SCAN | `OBJECT ENCODING` (or `TYPE`), `PTTL` |
//! | 2 | strings | `GET` where short, else `STRLEN`; of some, the value's beginning and `MEMORY USAGE` |
//! | 2 | all others | `TYPE` where the encoding doesn't tell it, `MEMORY USAGE` |
//! | 3 | small sets and hashes | `SMEMBERS`, `HGETALL` |
//! | 3 | all others | `HLEN`, `SCARD` …; of some, fields or members |
//!
//! A command that the server's user may not use is left out from then on, and named at the end. Keys are not
//! touched for LRU and LFU where the server can do that (`CLIENT NO-TOUCH`, Redis 7.2 and later, Valkey).

mod denied;
mod facts;
mod values;

use std::io::Write;
use std::num::NonZero;
use std::ops::ControlFlow;

use keyfold_core::resp::Reply;
use keyfold_core::walk::{KeyWalk, WalkError};
use keyfold_survey::observation::Observation;

pub(crate) use denied::Denied;
pub(crate) use keyfold_server::keyspace::{Database, Databases, Round, chosen, chosen_of_each, keys_of};
pub(crate) use values::{ServerValues, Values, Wanted, packed};

use facts::Facts;
use keyfold_server::pace::Pace;
use keyfold_server::{Commands, Nodes, Server};

/// Keys of one page where nothing limits the rate: enough that round trips don't count, and a SCAN that holds up
/// other clients for a fraction of a millisecond.
const PAGE_KEYS: u64 = 1000;
/// With a limit, pages are this share of a second long.
const PAGES_PER_SECOND: u64 = 10;
/// About how many commands a key takes.
const OPS_PER_KEY: u64 = 4;

/// Of one in so many keys the beginning of the value is looked at, or some members: for examples, and to tell what hashes and
/// sets hold.
pub(crate) const LOOK_INTO_EVERY: u64 = 32;

/// How to walk.
#[derive(Clone, Debug)]
pub(crate) struct KeyScan {
    /// Commands a second, at most.
    pub(crate) max_ops: Option<NonZero<u32>>,
    /// About how many keys, over all databases; none for all. The order of SCAN is that of the keys' hashes under
    /// a secret of the server, so its first keys are as good a sample as any.
    pub(crate) sample: Option<NonZero<u64>>,
    /// Of one in so many keys also the beginning of the value is looked at, or some fields or members; 0 for none.
    pub(crate) sample_every: u64,
}

/// Says on stderr what of a cluster makes its nodes unlike each other.
pub(crate) fn warn(nodes: &Nodes) {
    if let Some(others) = nodes.other_releases() {
        tell(&format!("{others}; upgrade them to one release"));
    }
}

/// A warning on stderr, as standard output may be read by a program.
pub(crate) fn tell(warning: &str) {
    let _ = writeln!(anstream::stderr(), "warning: {warning}");
}

/// Some keys, all of one database.
pub(crate) struct Page {
    pub(crate) database: u32,
    pub(crate) keys: Vec<Observation>,
}

/// How a walk came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// All keys that it was to see were seen.
    Complete,
    /// Whoever took the pages had enough.
    Stopped,
    /// The server was lost, or refused to go on.
    Lost(anyhow::Error),
}

/// What a walk has to say at its end.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) end: End,
    /// How many keys were seen.
    pub(crate) keys: u64,
    /// How many commands were sent.
    pub(crate) commands: u64,
    /// What could not be asked.
    pub(crate) denied: Denied,
}

impl KeyScan {
    /// Walks over these databases of each server and hands on page after page, until `on_page` breaks.
    pub(crate) fn run(
        &self,
        servers: &mut [Server],
        databases: &[Vec<Database>],
        on_page: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> Walked {
        let mut walker = Walker::new(self);
        let end = match walker.run(servers, databases, on_page) {
            Ok(ControlFlow::Continue(())) => End::Complete,
            Ok(ControlFlow::Break(())) => End::Stopped,
            Err(error) => End::Lost(error),
        };
        let Walker { keys, pace, facts, .. } = walker;
        Walked { end, keys, commands: pace.spent(), denied: facts.into_denied() }
    }
}

struct Walker<'w> {
    walk: &'w KeyScan,
    page_keys: u64,
    pace: Pace,
    facts: Facts,
    keys: u64,
}

impl<'w> Walker<'w> {
    fn new(walk: &'w KeyScan) -> Self {
        let page_keys = walk
            .max_ops
            .map_or(PAGE_KEYS, |ops| (u64::from(ops.get()) / PAGES_PER_SECOND / OPS_PER_KEY).clamp(1, PAGE_KEYS))
            .min(walk.sample.map_or(PAGE_KEYS, NonZero::get));
        Self { walk, page_keys, pace: Pace::new(walk.max_ops), facts: Facts::new(walk.sample_every), keys: 0 }
    }

    fn run(
        &mut self,
        servers: &mut [Server],
        databases: &[Vec<Database>],
        on_page: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let total = keys_of(databases.iter().flatten());
        for (server, databases) in servers.iter_mut().zip(databases) {
            server.leave_untouched()?;
            let answers = self.send(server, &Facts::probes())?;
            self.facts.take_probes(&answers);
            for database in databases {
                let wanted = self.walk.sample.map(|sample| {
                    let share = u128::from(sample.get()) * u128::from(database.keys) / u128::from(total.max(1));
                    u64::try_from(share).unwrap_or(u64::MAX).max(1)
                });
                server.select(database.number)?;
                if self.database(server, database.number, wanted, on_page)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn database(
        &mut self,
        server: &mut Server,
        database: u32,
        wanted: Option<u64>,
        on_page: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let (mut walk, mut names, mut seen) = (KeyWalk::new(self.page_keys), Names::new(), 0);
        loop {
            let goes_on = !walk.is_over() && wanted.is_none_or(|wanted| seen < wanted);
            let (keys, next) = self.page(server, names, goes_on.then_some(&mut walk))?;
            if on_page(Page { database, keys }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let Some(next) = next else { return Ok(ControlFlow::Continue(())) };
            seen += next.len() as u64;
            names = next;
        }
    }

    /// Asks about the keys of one page, and for the names of the next one where there is a `walk`.
    fn page(
        &mut self,
        server: &mut Server,
        names: Names,
        walk: Option<&mut KeyWalk>,
    ) -> anyhow::Result<(Vec<Observation>, Option<Names>)> {
        let mut questions = self.facts.begin(names);
        let mut stage = self.facts.first(&questions);
        if let Some(walk) = &walk {
            stage.commands.walk(walk);
        }
        let mut answers = self.send(server, &stage.commands)?;
        let next = walk.map(|walk| scanned(walk, &answers.pop().unwrap_or_default())).transpose()?;
        self.facts.take(&stage, &answers, &mut questions);
        for stage in [Facts::second, Facts::third] {
            let stage = stage(&self.facts, &mut questions);
            let answers = self.send(server, &stage.commands)?;
            self.facts.take(&stage, &answers, &mut questions);
        }
        let keys = questions.into_observations();
        self.keys += keys.len() as u64;
        Ok((keys, next))
    }

    /// Sends commands at the walk's pace; one answer for each, an error that the server gives included.
    fn send(&mut self, server: &mut Server, commands: &Commands) -> anyhow::Result<Vec<Vec<u8>>> {
        self.pace.spend(commands.len() as u64);
        server.ask_all(commands)
    }
}

type Names = Vec<Box<[u8]>>;

/// The names in an answer.
fn scanned(walk: &mut KeyWalk, answer: &[u8]) -> anyhow::Result<Names> {
    match walk.take(Reply::parse(answer)?) {
        Ok(names) => Ok(names.map(Box::from).collect()),
        Err(WalkError::Refused(error)) => {
            let is_denied = error.to_ascii_uppercase().starts_with(b"NOPERM");
            let advice =
                if is_denied { "; without SCAN there is nothing to walk over: give the user +scan and ~*" } else { "" };
            anyhow::bail!("the server refuses SCAN: {}{advice}", String::from_utf8_lossy(&error))
        }
        Err(strange) => Err(strange.into()),
    }
}
