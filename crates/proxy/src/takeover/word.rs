//! What two keyfolds say to one another: a line of JSON each, with a socket beside it where one is handed over.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// The words that are understood here. It changes when an earlier keyfold would misunderstand the later.
pub(super) const PROTOCOL: u32 = 1;

/// A longer line is none of a keyfold's.
const LONGEST_LINE: usize = 16 * 1024;

/// What one says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The new one: give me your sockets.
    Asks(Keyfold),
    /// The old one: here come so many.
    Gives { by: Keyfold, sockets: usize },
    /// The old one, with a socket beside it.
    Socket {
        /// It is the one on which keyfolds ask.
        for_keyfolds: bool,
        /// The file goes with who has the socket.
        removes_file: bool,
    },
    /// The new one: I serve on these, by their numbers.
    Serves { on: Vec<usize> },
    /// The old one: I let nobody in any more.
    Leaves,
    /// The old one: nothing is handed over.
    Refuses { why: String },
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keyfold {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) pid: u32,
}

/// Why no word came.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoWord {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it said what no keyfold says here: {}", .0.escape_ascii())]
    Foreign(Vec<u8>),
}

impl Keyfold {
    pub(super) fn own() -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() }
    }
}

impl std::fmt::Display for Keyfold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What another process says of itself may hold anything.
        write!(f, "keyfold {}, process {}", self.version.escape_debug(), self.pid)
    }
}

/// Says a word, with a socket beside it.
pub(super) async fn say(stream: &UnixStream, word: &Word, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    let mut said = 0;
    while said < line.len() {
        // The socket travels with the first byte.
        let sockets: Vec<BorrowedFd<'_>> = socket.filter(|_| said == 0).into_iter().collect();
        said += stream.async_io(Interest::WRITABLE, || send(stream, &line[said..], &sockets)).await?;
    }
    Ok(())
}

fn send(stream: &UnixStream, bytes: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(sockets));
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut beside, SendFlags::empty())?)
}

/// Hears the next word, and takes the socket beside it. It is read byte by byte: what is read together with a byte is known to
/// belong to it.
pub(super) async fn hear(stream: &UnixStream) -> Result<(Word, Option<OwnedFd>), NoWord> {
    let (mut line, mut beside) = (Vec::new(), None);
    loop {
        match stream.async_io(Interest::READABLE, || receive(stream, &mut beside)).await? {
            None => return Err(NoWord::Closed),
            Some(b'\n') => break,
            Some(_) if line.len() == LONGEST_LINE => return Err(foreign(&line)),
            Some(byte) => line.push(byte),
        }
    }
    match serde_json::from_slice(&line) {
        Ok(word) => Ok((word, beside)),
        Err(_) => Err(foreign(&line)),
    }
}

fn foreign(line: &[u8]) -> NoWord {
    NoWord::Foreign(line[..line.len().min(64)].to_vec())
}

fn receive(stream: &UnixStream, beside: &mut Option<OwnedFd>) -> io::Result<Option<u8>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::empty())?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sockets) = message {
            *beside = sockets.last().or(beside.take());
        }
    }
    Ok((got.bytes > 0).then_some(byte[0]))
}
