//! Settles a layout that was put back: while this keyfold serves, it looks where the keys lie whose namespaces are in
//! doubt, as soon as nobody else is at it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use keyfold_core::change::{Connection, Owner};
use keyfold_core::layout::Layout;
use keyfold_report::number::plural;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, Target};

use crate::layout::writer;
use crate::moving::recovery;

/// How often it is looked whether anything is in doubt.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long it is left alone after it could not be settled.
const AGAIN_AFTER: Duration = Duration::from_secs(20);
/// Commands a second to the server, at most, beside what clients ask.
const MAX_OPS: u32 = 50_000;

/// What came of one try.
enum Tried {
    Settled,
    /// Somebody else is at it.
    Busy,
    /// Some keys hold two values, or are of another type.
    Left,
}

/// Begins to follow the layout that is served.
pub(crate) fn follow(target: Target, serving: impl Fn() -> Arc<Layout> + Send + 'static) -> anyhow::Result<()> {
    let body = move || {
        loop {
            thread::sleep(LOOK_EVERY);
            if !serving().is_in_doubt() {
                continue;
            }
            match settle(&target) {
                Ok(Tried::Settled | Tried::Busy) => {}
                Ok(Tried::Left) => thread::sleep(AGAIN_AFTER),
                // Another keyfold may have been quicker, and closed this connection by that.
                Err(reason) if serving().is_in_doubt() => {
                    tracing::warn!("the layout stays in doubt for now: {reason:#}");
                    thread::sleep(AGAIN_AFTER);
                }
                Err(_) => {}
            }
        }
    };
    thread::Builder::new().name("keyfold-settle".to_owned()).spawn(body).context("can't start a thread")?;
    Ok(())
}

fn settle(target: &Target) -> anyhow::Result<Tried> {
    let mut nodes = Nodes::connect(target)?;
    let clients: String = nodes.home().ask(&[b"CLIENT", b"LIST"])?;
    if Connection::read_all(&clients, None).iter().any(|connection| connection.owner == Owner::Writer) {
        return Ok(Tried::Busy);
    }
    writer::enter(nodes.home())?;
    let Some(stored) = stored::read(nodes.home())? else { return Ok(Tried::Busy) };
    let mut pace = Pace::new(std::num::NonZero::new(MAX_OPS));
    let Some(done) = recovery::settle(&mut nodes, &stored, &mut pace, &Interrupt::never())? else {
        return Ok(Tried::Settled);
    };
    let epoch = done.layout.epoch();
    if done.settled {
        tracing::info!(%epoch, "the layout that was put back is settled: moved {}", plural(done.driven.moved, "key"));
        return Ok(Tried::Settled);
    }
    if let Some(why) = &done.driven.unproven {
        tracing::warn!("the layout stays in doubt for now: {why}");
    }
    for stays in &done.driven.stays {
        tracing::warn!("{} stays in two places in doubt: {}", stays.name(), stays.why(&done.layout));
    }
    Ok(Tried::Left)
}
