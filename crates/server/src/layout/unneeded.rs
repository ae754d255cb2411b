//! What lies beside the layout and is of no use to the one in force: dictionaries, and records of slots.

use anyhow::bail;
use keyfold_core::admin::dictionaries as admin;
use keyfold_core::admin::{COPY_KEY, DICTIONARIES_KEY, LAYOUT_KEY};
use keyfold_core::layout::Layout;
use keyfold_core::resp::Reply;

use super::stored;
use crate::commands::Commands;
use crate::connection::Server;

/// Removes the records of slots of names that a layout doesn't use any more, if it is in force.
pub fn forget_slots(server: &mut Server, layout: &Layout) -> anyhow::Result<()> {
    remove(server, layout, admin::is_forgotten).map(|_| ())
}

/// Removes the dictionaries that a layout doesn't name, if it is in force; how many there were.
pub fn remove_dictionaries(server: &mut Server, layout: &Layout) -> anyhow::Result<usize> {
    remove(server, layout, admin::is_unnamed)
}

/// Removes what is useless to a layout, if that is in force when it is carried out: another one may need it.
fn remove(server: &mut Server, layout: &Layout, is_useless: fn(&[u8], &Layout) -> bool) -> anyhow::Result<usize> {
    server.select(0)?;
    server.ask::<()>(&[b"WATCH", LAYOUT_KEY, COPY_KEY])?;
    let in_force = stored::read(server)?.map_or_else(Layout::default, |stored| stored.layout);
    let there: Vec<Vec<u8>> = server.ask(&[b"HKEYS", DICTIONARIES_KEY])?;
    let useless: Vec<&[u8]> = there.iter().map(Vec::as_slice).filter(|field| is_useless(field, layout)).collect();
    if in_force != *layout || useless.is_empty() {
        server.ask::<()>(&[b"UNWATCH"])?;
        return Ok(0);
    }
    let mut removal = Commands::default();
    removal.push(&[b"MULTI"]);
    removal.push(&[&[b"HDEL", DICTIONARIES_KEY], useless.as_slice()].concat());
    removal.push(&[b"EXEC"]);
    let replies = server.ask_all(&removal)?;
    match replies.last().map(|exec| Reply::parse(exec)) {
        Some(Ok(Reply::Array(_))) => Ok(useless.len()),
        Some(Ok(Reply::Nil)) => Ok(0),
        exec => {
            bail!("{} does not remove unneeded fields of keyfold:{{home}}:dictionaries: {exec:?}", server.address())
        }
    }
}
