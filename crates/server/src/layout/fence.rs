//! Whether the server closes connections for good: what a change of the layout stands on.
//!
//! A process that hangs is shut out by closing its connections. Before each change that is tried out on a connection
//! made for it: it must be found in the server's list by its name, and once it is closed a write that it sends must
//! come to nothing. A server, or something before it, that can't do that gets no changes.

use anyhow::{Context, bail, ensure};
use keyfold_core::admin::fence_key;
use keyfold_core::slot::Slot;
use keyfold_proxy::Nonces;

use crate::connection::Server;

/// What stands against a change where one of them is refused.
pub const WHY: &str =
    "without CLIENT LIST and CLIENT KILL, and CLIENT SETNAME and ID, a process that hangs can't be shut out";

/// The server's list of connections.
pub fn list(server: &mut Server) -> anyhow::Result<String> {
    server.ask(&[b"CLIENT", b"LIST"]).context(WHY)
}

/// Tries it out, on a node that has these slots: in the first of them that is not on its way to another node.
///
/// # Errors
/// A closed connection could write, the node lets nobody try it out, or each of the slots is on its way.
pub fn prove(server: &mut Server, slots: impl IntoIterator<Item = Slot>) -> anyhow::Result<()> {
    for slot in slots {
        if is_proven(server, slot)? {
            return Ok(());
        }
    }
    bail!("each slot of the server at {} is being moved to another node: try again when that is over", server.address())
}

/// Tries it out in one slot; whether that says anything: a node refuses all writes of keys that it lacks of a slot on its
/// way.
fn is_proven(server: &mut Server, slot: Slot) -> anyhow::Result<bool> {
    let nonce = Nonces::new().context("the system has no randomness to give")?.draw();
    let name = format!("keyfold-fence:{nonce:016x}");
    let mut closed = server.another()?;
    closed.select(0)?;
    closed.set_name(&name);
    let list = list(server)?;
    let is_named = |line: &&str| line.split(' ').any(|word| word.strip_prefix("name=") == Some(&name));
    let id = list.lines().find(is_named).and_then(|line| line.split(' ').find_map(|word| word.strip_prefix("id=")));
    let Some(id) = id else {
        bail!("a connection is not in the list that CLIENT LIST gives: {WHY}, so the layout can't be changed here");
    };
    let _: i64 = server.ask(&[b"CLIENT", b"KILL", b"ID", id.as_bytes()]).context(WHY)?;
    let (key, nonce) = (fence_key(slot), nonce.to_string());
    let written: Result<(), _> = closed.query(&[b"SET", &key, nonce.as_bytes(), b"PX", b"1000"]);
    server.select(0)?;
    let found = match server.query::<Option<String>>(&[b"GET", &key]) {
        Err(error) if matches!(error.code(), "ASK" | "MOVED" | "TRYAGAIN") => return Ok(false),
        found => found?,
    };
    ensure!(
        written.is_err() && found != Some(nonce),
        "a connection that CLIENT KILL closed could still write: something stands between here and the server that \
         keeps connections open, and the layout can't be changed through it. Name the server itself"
    );
    Ok(true)
}
