//! A plain server and a subject, asked the same things at the same time.

use std::net::SocketAddr;
use std::time::Duration;

use keyfold_core::resp::write_command;

use crate::reply::Value;
use crate::wire::{Wire, WireError};

/// Where the two listen.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    /// The oracle.
    pub plain: SocketAddr,
    /// What must answer as the oracle does.
    pub subject: SocketAddr,
}

/// What one side sent: the reply's bytes, or why there is none.
pub type Reply = Result<Vec<u8>, WireError>;

/// One connection to each side.
#[derive(Debug)]
pub struct Link {
    /// To the plain server.
    pub plain: Wire,
    /// To the subject.
    pub subject: Wire,
}

impl Sides {
    /// Opens a connection to each.
    ///
    /// # Errors
    /// Where one of them does not listen.
    pub fn connect(&self, timeout: Duration) -> Result<Link, WireError> {
        let link = Link { plain: Wire::connect(self.plain)?, subject: Wire::connect(self.subject)? };
        link.plain.set_timeout(timeout)?;
        link.subject.set_timeout(timeout)?;
        Ok(link)
    }
}

impl Link {
    /// Sends the same bytes to both. A side that is gone shows when its reply is read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.plain.send_bytes(bytes);
        let _ = self.subject.send_bytes(bytes);
    }

    /// The next reply of each.
    pub fn replies(&mut self) -> [Reply; 2] {
        [self.plain.reply(), self.subject.reply()]
    }

    /// Sends one command to both and reads the replies.
    pub fn call(&mut self, args: &[Vec<u8>]) -> [Reply; 2] {
        self.send(&encode(args));
        self.replies()
    }

    /// Each side, the plain one first.
    pub fn both(&mut self) -> [&mut Wire; 2] {
        [&mut self.plain, &mut self.subject]
    }
}

/// One command as an array of bulk strings.
pub fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let mut bytes = Vec::new();
    write_command(&mut bytes, &args);
    bytes
}

/// The elements of a whole SCAN, sorted, each once. `reply` answers `args`, whose cursor is the second.
///
/// # Errors
/// Where a later step of the iteration gets no reply.
pub fn scan_on(wire: &mut Wire, args: &[Vec<u8>], reply: &[u8]) -> Result<Option<Vec<Vec<u8>>>, WireError> {
    /// No iteration over a test's keys is longer.
    const STEPS: usize = 10_000;
    let mut elements = Vec::new();
    let mut reply = reply.to_vec();
    for _ in 0..STEPS {
        let value = Value::parse(&reply)?;
        let Some([cursor, page]) = value.elements() else { return Ok(None) };
        let (Some(cursor), Some(page)) = (cursor.bytes(), page.elements()) else { return Ok(None) };
        elements.extend(page.iter().filter_map(Value::bytes).map(<[u8]>::to_vec));
        if cursor == b"0" {
            elements.sort();
            elements.dedup();
            return Ok(Some(elements));
        }
        let mut next: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        next[1] = cursor;
        reply = wire.call(&next)?;
    }
    Ok(None)
}

/// A reply, every byte told apart, for a person.
pub fn shown(reply: &Reply) -> String {
    match reply {
        Ok(bytes) => bytes.escape_ascii().to_string(),
        Err(error) => format!("({error})"),
    }
}
