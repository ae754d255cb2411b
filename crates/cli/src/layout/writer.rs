//! A tool's connection by which it writes to where a layout says.
//!
//! It is named, and only then the layout is read, and not while a change holds all writers: whoever replaces the layout
//! later finds the connection by its name and has the server close it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use keyfold_core::admin::CHANGE_KEY;
use keyfold_core::change::{Announcement, HELD_MS, WRITER_NAME};

use keyfold_server::Server;
use keyfold_server::layout::fence;

/// How often it is looked whether a change is over.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Makes a connection a writer's. Leaves it in database 0.
///
/// # Errors
/// It can't be named, or a change goes on and on.
pub(crate) fn enter(server: &mut Server) -> anyhow::Result<()> {
    server.select(0)?;
    // A change that is under way would have it closed as soon as it is named.
    wait_while_held(server)?;
    name(server)?;
    wait_while_held(server)
}

/// Names a connection to a node that may not have keyfold's own keys: whether a change holds all writers is to be asked
/// afterwards, where these keys are.
pub(crate) fn name(server: &mut Server) -> anyhow::Result<()> {
    server.ask::<String>(&[b"CLIENT", b"SETNAME", WRITER_NAME.as_bytes()]).map(drop).context(fence::WHY)
}

/// Waits until no change holds writers.
///
/// # Errors
/// A change goes on and on.
pub(crate) fn wait_while_held(server: &mut Server) -> anyhow::Result<()> {
    let since = Instant::now();
    while holds(server)? {
        if since.elapsed().as_millis() > 10 * u128::from(HELD_MS.unsigned_abs()) {
            bail!(
                "another change of the layout is under way (`GET keyfold:{{home}}:change`); try again when it is over"
            );
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

fn holds(server: &mut Server) -> anyhow::Result<bool> {
    let announcement: Option<Vec<u8>> = server.ask(&[b"GET", CHANGE_KEY])?;
    Ok(Announcement::holds(announcement.as_deref()))
}
