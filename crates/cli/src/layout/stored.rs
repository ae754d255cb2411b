//! The server's own copy of the layout.

use anyhow::{Context, anyhow};
use keyfold_core::layout::{Layout, STORED_KEY};

use super::{dictionaries, file};
use crate::server::Server;

/// What the server holds: the text, and the layout it is. None where it holds none.
pub(crate) struct Stored {
    pub(crate) text: String,
    pub(crate) layout: Layout,
}

/// Reads the server's layout. Leaves the connection in database 0.
pub(crate) fn read(server: &mut Server) -> anyhow::Result<Option<Stored>> {
    server.select(0)?;
    let text: Option<Vec<u8>> = server.ask(redis::cmd("GET").arg(STORED_KEY))?;
    let Some(text) = text else { return Ok(None) };
    let name = String::from_utf8_lossy(STORED_KEY);
    let text = String::from_utf8(text).map_err(|_| anyhow!("the server's {name} is not text; restore it"))?;
    let layout = Layout::from_stored(&text)
        .map_err(|error| anyhow!("{}", file::show(&name, &text, &error)))
        .context("the server's own layout can't be read")?;
    let layout = dictionaries::open(server, layout)?;
    Ok(Some(Stored { text, layout }))
}
