//! Listening sockets that this process was started with, as systemd starts what has a `.socket` unit.

use anyhow::{Context, anyhow};
use keyfold_proxy::Sockets;
use listenfd::ListenFd;

/// Takes them all. It changes the environment, and so comes before any thread.
///
/// # Errors
/// One is none that clients come in by.
pub(crate) fn sockets() -> anyhow::Result<Sockets> {
    let mut given = ListenFd::from_env();
    let mut sockets = Sockets::default();
    for at in 0..given.len() {
        let refused = || format!("listening socket {at} that this process was started with (LISTEN_FDS) can't be used");
        let added = match (given.take_tcp_listener(at), given.take_unix_listener(at)) {
            (Ok(Some(listener)), _) => sockets.add(listener),
            (_, Ok(Some(listener))) => sockets.add(listener),
            (Err(error), _) => return Err(anyhow!(error).context(refused())),
            (Ok(None), _) => continue,
        };
        added.with_context(refused)?;
    }
    Ok(sockets)
}
