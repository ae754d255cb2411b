//! A new keyfold takes the listening sockets of the one that runs, over a unix socket that both name (`--takeover`).
//!
//! ```text
//! new:  connects, asks ─────────▶  old:  the same user? gives its sockets, and serves on
//! new:  starts; ready to serve
//! new:  lets clients in; serves ─▶  old:  lets nobody in any more, and leaves
//! new:  asked by the next one             its clients are served until they are idle, or its time is up
//! ```
//! Both have the same sockets, and not two that share an address: a connection that waits to be accepted waits for either, and
//! is lost with neither. What keeps it safe:
//!
//! - The old one serves as before until the new one says that it serves. Where that dies, hangs or gives up before, nothing
//!   has happened.
//! - Neither waits for the other without bound.
//! - Nobody but the same user gets a socket, or is believed to have given one.

mod giver;
mod taker;
mod word;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use giver::{Giver, Role, Shared, Successor};
pub(crate) use taker::{Predecessor, ask};

/// How long each waits for the other's next word, where that has nothing to do before.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long a new keyfold may take to serve once it has the sockets.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(15);

/// Why a keyfold didn't take over from the one that runs, which goes on as before.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// It can't be asked.
    #[error("can't ask the keyfold at {}, which goes on as before: {source}", path.display())]
    Asking {
        /// Where (`--takeover`).
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It doesn't answer.
    #[error(
        "the keyfold at {} doesn't answer within {} s: it is stopped, hangs, or another takes over from it just now. Let it go on or \
         end it, and start this one again",
        path.display(),
        ANSWER_WITHIN.as_secs()
    )]
    Silent {
        /// Where (`--takeover`).
        path: PathBuf,
    },
    /// Whoever listens there is somebody else's.
    #[error(
        "what listens at {} belongs to user {theirs}, and this keyfold to user {own}: sockets go from one to another of the same user",
        path.display()
    )]
    Stranger {
        /// Where (`--takeover`).
        path: PathBuf,
        /// Whose it is.
        theirs: u32,
        /// Who we are.
        own: u32,
    },
    /// It is no keyfold, or one of another kind.
    #[error(
        "what listens at {} is no keyfold that this one can take over from ({said}). Where it is one of another version, stop it, and \
         start this one then",
        path.display()
    )]
    Foreign {
        /// Where (`--takeover`).
        path: PathBuf,
        /// What it said.
        said: String,
    },
    /// This one can't serve.
    #[error(
        "not ready to serve within {} s, so that the keyfold at {} goes on as before: {why}",
        READY_WITHIN.as_secs(),
        path.display()
    )]
    NotReady {
        /// Where (`--takeover`).
        path: PathBuf,
        /// What it waited for.
        why: String,
    },
}
