//! The old keyfold's half.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::word::{Keyfold, NoWord, PROTOCOL, Word, hear, say};
use super::{ANSWER_WITHIN, READY_WITHIN};
use crate::sockets::SocketFiles;

/// How long it is waited for a new keyfold that has the sockets: a little longer than that tries.
const SERVES_WITHIN: Duration = READY_WITHIN.saturating_add(ANSWER_WITHIN);

/// How long accepting rests after the system refused it.
const REST: Duration = Duration::from_millis(100);

/// A socket that another keyfold may have.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: OwnedFd,
    /// The file of a unix socket that goes with who has it.
    pub(crate) file: Option<PathBuf>,
    pub(crate) role: Role,
}

/// What comes in by a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Clients,
    Operators,
    Keyfolds,
}

/// Waits for a keyfold that takes over.
#[derive(Debug)]
pub(crate) struct Giver {
    pub(crate) listener: std::os::unix::net::UnixListener,
    pub(crate) shared: Vec<Shared>,
    pub(crate) files: Arc<SocketFiles>,
    /// Told that operators come in elsewhere.
    pub(crate) operators_left: watch::Sender<bool>,
}

/// A keyfold that has taken over, and waits to hear that this one leaves.
#[derive(Debug)]
pub(crate) struct Successor {
    stream: UnixStream,
    who: Keyfold,
}

/// Why one that came didn't take over.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("it belongs to user {0}")]
    Stranger(u32),
    #[error("it is {0}, which takes over in another way")]
    OtherProtocol(Keyfold),
    #[error("it said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("it asked for nothing: {0}")]
    Unasked(NoWord),
    #[error("{0} was gone before it served: {1}")]
    Gone(Keyfold, NoWord),
    #[error("{0} didn't serve within {s} s", s = SERVES_WITHIN.as_secs())]
    Late(Keyfold),
    #[error("{0} said {1}")]
    Confused(Keyfold, String),
    #[error("can't speak to it: {0}")]
    Io(#[from] io::Error),
}

impl Giver {
    /// Waits until one has taken over. Whatever goes wrong before, this keyfold goes on.
    pub(crate) async fn give(self) -> io::Result<Successor> {
        self.listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "can't accept a keyfold that would take over");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            match self.give_to(&stream).await {
                Ok((who, on)) => {
                    self.hand_over(&on);
                    return Ok(Successor { stream, who });
                }
                Err(error) => {
                    tracing::warn!("no keyfold took over, this one goes on: {error}");
                    let _ = timeout(ANSWER_WITHIN, say(&stream, &Word::Refuses { why: error.to_string() }, None)).await;
                }
            }
        }
    }

    /// Gives all sockets to who asks; who it is, and on which of them it serves.
    async fn give_to(&self, stream: &UnixStream) -> Result<(Keyfold, Vec<usize>), NotTaken> {
        let user = stream.peer_cred()?.uid();
        if user != rustix::process::geteuid().as_raw() {
            return Err(NotTaken::Stranger(user));
        }
        let who = match timeout(ANSWER_WITHIN, hear(stream)).await {
            Err(_) => return Err(NotTaken::Silent(ANSWER_WITHIN)),
            Ok(Ok((Word::Asks(who), _))) if who.protocol == PROTOCOL => who,
            Ok(Ok((Word::Asks(who), _))) => return Err(NotTaken::OtherProtocol(who)),
            Ok(Ok((word, _))) => return Err(NotTaken::Unasked(NoWord::Foreign(format!("{word:?}").into_bytes()))),
            Ok(Err(error)) => return Err(NotTaken::Unasked(error)),
        };
        tracing::info!("{who} asks for the listening sockets, and starts");
        timeout(ANSWER_WITHIN, self.send_all(stream)).await.map_err(|_| NotTaken::Silent(ANSWER_WITHIN))??;
        match timeout(SERVES_WITHIN, hear(stream)).await {
            Err(_) => Err(NotTaken::Late(who)),
            Ok(Err(error)) => Err(NotTaken::Gone(who, error)),
            Ok(Ok((Word::Serves { on }, _))) if on.iter().all(|number| *number < self.shared.len()) => Ok((who, on)),
            Ok(Ok((word, _))) => Err(NotTaken::Confused(who, format!("{word:?}"))),
        }
    }

    async fn send_all(&self, stream: &UnixStream) -> io::Result<()> {
        say(stream, &Word::Gives { by: Keyfold::own(), sockets: self.shared.len() }, None).await?;
        for shared in &self.shared {
            let (for_keyfolds, removes_file) = (shared.role == Role::Keyfolds, shared.file.is_some());
            say(stream, &Word::Socket { for_keyfolds, removes_file }, Some(shared.socket.as_fd())).await?;
        }
        Ok(())
    }

    /// The sockets of these numbers are another's from now on.
    fn hand_over(&self, on: &[usize]) {
        for shared in on.iter().filter_map(|number| self.shared.get(*number)) {
            if let Some(file) = &shared.file {
                self.files.hand_over(file);
            }
            if shared.role == Role::Operators {
                self.operators_left.send_replace(true);
            }
        }
    }
}

impl Successor {
    /// This keyfold lets nobody in any more.
    pub(crate) async fn hear_that_this_leaves(self) {
        tracing::info!("{} has taken over: clients that are here are served until they are idle", self.who);
        let said = timeout(ANSWER_WITHIN, say(&self.stream, &Word::Leaves, None)).await;
        if !matches!(said, Ok(Ok(()))) {
            tracing::warn!("{} doesn't hear that this one leaves", self.who);
        }
    }
}
