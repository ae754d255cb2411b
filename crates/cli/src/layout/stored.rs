//! The server's own copy of the layout: read, and written only over what was read.

use anyhow::{Context, anyhow, bail};
use keyfold_core::layout::{Layout, STORED_KEY};

use super::file;
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
    Ok(Some(Stored { text, layout }))
}

/// Puts `layout` in the place of `before`, and only of that.
///
/// # Errors
/// Where the server holds something else by now: it is left as it is.
pub(crate) fn replace(server: &mut Server, before: Option<&Stored>, layout: &Layout) -> anyhow::Result<()> {
    server.select(0)?;
    server.ask::<()>(redis::cmd("WATCH").arg(STORED_KEY))?;
    let now: Option<String> = server.ask(redis::cmd("GET").arg(STORED_KEY))?;
    let mut written: Option<()> = None;
    if now.as_deref() == before.map(|stored| stored.text.as_str()) {
        let mut transaction = redis::pipe();
        transaction.atomic().set(STORED_KEY, layout.to_stored()).ignore();
        written = transaction.query(server.raw()).context("the server didn't take the layout")?;
    } else {
        server.ask::<()>(&redis::cmd("UNWATCH"))?;
    }
    if written.is_none() {
        bail!("another keyfold changed the server's layout in this moment; nothing was written, try again");
    }
    Ok(())
}
