//! The new keyfold's half.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::word::{Keyfold, NoWord, PROTOCOL, Word, hear, say};
use super::{ANSWER_WITHIN, TakeoverError};
use crate::sockets::{Place, Sockets};

/// More listening sockets than any keyfold has.
const MOST_SOCKETS: usize = 1024;

/// The keyfold that runs, which has given its sockets and serves on.
#[derive(Debug)]
pub(crate) struct Predecessor {
    runtime: Runtime,
    stream: UnixStream,
    who: Keyfold,
    path: PathBuf,
}

/// Asks the keyfold that listens at `path` for its sockets; none where nobody does.
pub(crate) fn ask(path: &Path, sockets: &mut Sockets) -> Result<Option<Predecessor>, TakeoverError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| TakeoverError::Asking { path: path.to_owned(), source })?;
    let asked = runtime.block_on(async {
        let asked = match begin(path).await {
            // It ended just then: nobody listens any more, or another does.
            Err(TakeoverError::Asking { source, .. }) if has_ended(&source) => begin(path).await,
            asked => asked,
        };
        let Some((stream, word)) = asked? else { return Ok(None) };
        let who = take(word, &stream, path, sockets).await?;
        Ok(Some((stream, who)))
    })?;
    Ok(asked.map(|(stream, who)| Predecessor { runtime, stream, who, path: path.to_owned() }))
}

/// Whether nobody listens: there is no file, or its keyfold has ended.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Whether who listened has ended with the connection.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
}

/// Connects to the keyfold that listens there and asks it, with the first word that it says; none where nobody listens.
async fn begin(path: &Path) -> Result<Option<(UnixStream, Word)>, TakeoverError> {
    let asking = |source| TakeoverError::Asking { path: path.to_owned(), source };
    let stream = match timeout(ANSWER_WITHIN, UnixStream::connect(path)).await {
        Err(_) => return Err(TakeoverError::Silent { path: path.to_owned() }),
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if is_nobody(&error) => return Ok(None),
        Ok(Err(error)) => return Err(asking(error)),
    };
    let (theirs, own) = (stream.peer_cred().map_err(asking)?.uid(), rustix::process::geteuid().as_raw());
    if theirs != own {
        return Err(TakeoverError::Stranger { path: path.to_owned(), theirs, own });
    }
    say(&stream, &Word::Asks(Keyfold::own()), None).await.map_err(asking)?;
    let (word, _) = heard(&stream, path).await?;
    Ok(Some((stream, word)))
}

/// Takes the sockets that it gives.
async fn take(first: Word, stream: &UnixStream, path: &Path, sockets: &mut Sockets) -> Result<Keyfold, TakeoverError> {
    let asking = |source| TakeoverError::Asking { path: path.to_owned(), source };
    let foreign = |said: String| TakeoverError::Foreign { path: path.to_owned(), said };
    let (who, count) = match first {
        Word::Gives { by, sockets } if by.protocol == PROTOCOL && sockets <= MOST_SOCKETS => (by, sockets),
        Word::Gives { by, .. } => return Err(foreign(format!("it is {by}, which hands over in another way"))),
        Word::Refuses { why } => return Err(foreign(format!("it says: {}", why.escape_debug()))),
        other => return Err(foreign(format!("it said {other:?}"))),
    };
    for number in 0..count {
        let (Word::Socket { for_keyfolds, removes_file }, Some(socket)) = heard(stream, path).await? else {
            return Err(foreign("it gave fewer sockets than it said".to_owned()));
        };
        // The old one may have written the path in another way.
        let place = for_keyfolds.then(|| Place::Unix(path.to_owned()));
        sockets.add_taken(socket, place, number, removes_file).map_err(asking)?;
    }
    Ok(who)
}

async fn heard(stream: &UnixStream, path: &Path) -> Result<(Word, Option<std::os::fd::OwnedFd>), TakeoverError> {
    match timeout(ANSWER_WITHIN, hear(stream)).await {
        Err(_) => Err(TakeoverError::Silent { path: path.to_owned() }),
        Ok(Ok(heard)) => Ok(heard),
        Ok(Err(NoWord::Io(source))) => Err(TakeoverError::Asking { path: path.to_owned(), source }),
        Ok(Err(closed @ NoWord::Closed)) => {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, closed.to_string());
            Err(TakeoverError::Asking { path: path.to_owned(), source })
        }
        Ok(Err(said)) => Err(TakeoverError::Foreign { path: path.to_owned(), said: said.to_string() }),
    }
}

impl Predecessor {
    /// This keyfold can't serve, and so takes nothing.
    pub(crate) fn is_kept(&self, why: String) -> TakeoverError {
        TakeoverError::NotReady { path: self.path.clone(), why }
    }

    /// Clients are let in here, on the sockets of these numbers: the other one is to leave. Where it doesn't say so, this one
    /// serves all the same.
    pub(crate) fn relieve(self, on: Vec<usize>) {
        let Self { runtime, stream, who, .. } = self;
        let taken = on.len();
        let left = runtime.block_on(async {
            let leaving = async {
                say(&stream, &Word::Serves { on }, None).await?;
                hear(&stream).await
            };
            timeout(ANSWER_WITHIN, leaving).await
        });
        match left {
            Ok(Ok((Word::Leaves, _))) => tracing::info!(sockets = taken, "took over from {who}, which leaves"),
            Ok(Ok((word, _))) => tracing::warn!("took over from {who}, which answered {word:?} instead of leaving"),
            Ok(Err(error)) => tracing::warn!(%error, "took over from {who}, which was gone before it left"),
            Err(_) => tracing::warn!(
                "took over from {who}, which doesn't say within {} s that it leaves: look whether it hangs. It has its clients \
                 still, and this one lets in those that come",
                ANSWER_WITHIN.as_secs()
            ),
        }
    }
}
