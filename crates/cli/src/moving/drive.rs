//! Drives the core's mover over all databases, until a walk finds nothing more to move.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use keyfold_core::drive::Context;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::mover::{Left, Moved, Mover};
use keyfold_proxy::Nonces;
use keyfold_report::number::{mebibytes, plural};
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::pace::Pace;
use keyfold_server::{Server, ServerTime};

use crate::layout::keys;
use crate::scan::Round;

/// How often the server is asked for its memory.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A walk finds what was written in old places since the one before: nothing soon, unless somebody goes on with it.
const MOST_WALKS: u32 = 8;

/// What a move has done.
#[derive(Debug, Default)]
pub(crate) struct Driven {
    pub(crate) moved: u64,
    /// Values that the last walk looked at, where they are stored again.
    pub(crate) seen: u64,
    pub(crate) expired: u64,
    /// What stays in old places, by the last walk.
    pub(crate) left: Moved,
    /// The most that `used_memory` was.
    pub(crate) peak_bytes: u64,
    pub(crate) took: Duration,
}

/// Moves all keys of the namespaces that move under `layout`, which is in force.
pub(crate) fn drive(
    server: &mut Server,
    layout: &Layout,
    keys: u64,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Driven> {
    let pattern = keys::pattern_of_moves(layout);
    let progress = Progress::new("moved keys", usize::try_from(keys).unwrap_or(usize::MAX));
    run(server, layout, &|| Mover::new(&pattern), progress, pace, interrupt)
}

/// Stores the values of these namespaces again that another codec wrote than the one that `layout`, which is in
/// force, says.
pub(crate) fn recode(
    server: &mut Server,
    layout: &Layout,
    namespaces: &[NamespaceIndex],
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Driven> {
    let progress = Progress::new("values stored again", 0);
    run(server, layout, &|| Mover::recode(namespaces.to_vec()), progress, pace, interrupt)
}

fn run(
    server: &mut Server,
    layout: &Layout,
    mover: &dyn Fn() -> Mover,
    progress: Progress,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Driven> {
    let mut driver = Driver {
        context: Context::new(layout, server.version().info()),
        server,
        nonces: Nonces::new().context("the system has no randomness to give")?,
        pace,
        interrupt,
        mover,
        progress,
        looked: Instant::now(),
        done: Driven::default(),
    };
    let started = Instant::now();
    let mut walks = 1;
    loop {
        let found = driver.pass()?;
        if found == 0 {
            break;
        }
        if walks == MOST_WALKS {
            bail!(
                "{} found in old places by walk {walks} still: somebody goes on writing past keyfold. What has been \
                 moved stays moved, and all keys are reachable; point those clients to keyfold (CLIENT LIST on the \
                 server names them), and run it again to go on",
                plural(found, "key")
            );
        }
        walks += 1;
    }
    Ok(Driven { took: started.elapsed(), ..driver.done })
}

struct Driver<'a> {
    server: &'a mut Server,
    context: Context<'a>,
    nonces: Nonces,
    pace: &'a mut Pace,
    interrupt: &'a Interrupt,
    /// Begins a walk.
    mover: &'a dyn Fn() -> Mover,
    progress: Progress,
    looked: Instant,
    done: Driven,
}

impl Driver<'_> {
    /// One walk over all databases; how many keys it found to move.
    fn pass(&mut self) -> anyhow::Result<u64> {
        let mut walked = Moved::default();
        let mut round = Round::all(self.server)?;
        while round.enter_next(self.server)?.is_some() {
            let moved = self.walk((self.mover)())?;
            walked.moved += moved.moved;
            walked.seen += moved.seen;
            walked.left.extend(moved.left);
            walked.left_count += moved.left_count;
            self.done.expired += moved.expired;
        }
        let found = walked.moved;
        self.done.moved += found;
        self.done.seen = walked.seen;
        self.done.left = walked;
        Ok(found)
    }

    fn walk(&mut self, mut mover: Mover) -> anyhow::Result<Moved> {
        let time = ServerTime::ask(self.server)?;
        let mut wire = Vec::new();
        let mut shown = 0;
        loop {
            if self.interrupt.wanted() {
                bail!(
                    "interrupted; what has been moved stays moved, and all keys are reachable. Run it again to go on"
                );
            }
            let mut draw = || self.nonces.draw();
            let mut env = self.context.env(time.now_ms(), &mut draw);
            wire.clear();
            let Some(count) = mover.next(&env, &mut wire) else { return Ok(mover.moved().clone()) };
            let replies = self.server.exchange(&wire, count)?;
            mover.handle_replies(&replies, &mut env).map_err(|error| {
                anyhow::anyhow!(
                    "the server refuses to go on: {}; what has been moved stays moved, and all keys are reachable. \
                     Mend it and run the same command again",
                    error.trim_end()
                )
            })?;
            let moved = mover.moved().moved;
            self.progress.advance(usize::try_from(moved - shown).unwrap_or(0));
            self.pace.spend(count as u64 + 6 * (moved - shown));
            shown = moved;
            self.look()?;
        }
    }

    fn look(&mut self) -> anyhow::Result<()> {
        if self.looked.elapsed() < LOOK_EVERY && self.done.peak_bytes > 0 {
            return Ok(());
        }
        self.looked = Instant::now();
        let used = self.server.used_memory()?;
        self.done.peak_bytes = self.done.peak_bytes.max(used);
        self.progress.note(format!(", memory {}", mebibytes(used)));
        Ok(())
    }
}

/// Why a key stays, and what to do.
pub(crate) fn explain(why: &Left) -> String {
    match why {
        Left::OtherType(kind) => format!("it is a {kind}; rename or remove it"),
        Left::InBoth => {
            "somebody wrote it past keyfold; clients see the value in the new place. DEL the key on the server itself, \
             not through keyfold, to remove the other one"
                .to_owned()
        }
        Left::Damaged(why) => format!("{why}; see keyfold verify"),
        Left::NotAHash => {
            "it is called as the hashes are that keys are moved out of, and is none; rename it".to_owned()
        }
        Left::NoKey { field } => format!(
            "its field \"{}\" is the place of no key; write what it holds elsewhere, or remove it",
            field.escape_ascii()
        ),
    }
}
