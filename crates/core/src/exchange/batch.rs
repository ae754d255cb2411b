//! Several physical commands sent as one, and their replies gathered.

use std::mem;

use crate::resp::{Reply, write_command};

/// Commands for one [`Batch`], as bytes.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    bytes: Vec<u8>,
    count: u32,
}

impl Commands {
    /// Appends a command.
    pub(crate) fn push(&mut self, args: &[&[u8]]) {
        write_command(&mut self.bytes, args);
        self.count += 1;
    }

    /// How many commands there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// The replies to commands that were sent together.
#[derive(Debug)]
pub(crate) struct Batch {
    left: u32,
    atomic: bool,
    failure: Option<Vec<u8>>,
    aborted: bool,
    replies: Vec<Vec<u8>>,
}

impl Batch {
    /// Sends the commands so that nothing happens between them: alone, or within MULTI and EXEC.
    pub(crate) fn send_atomic(commands: &Commands, wire: &mut Vec<u8>) -> Self {
        if commands.count <= 1 { Self::send(commands, wire) } else { Self::send_transaction(commands, wire) }
    }

    /// Sends the commands within MULTI and EXEC, however few they are.
    pub(crate) fn send_transaction(commands: &Commands, wire: &mut Vec<u8>) -> Self {
        write_command(wire, &[b"MULTI"]);
        wire.extend_from_slice(&commands.bytes);
        write_command(wire, &[b"EXEC"]);
        Self { left: commands.count + 2, atomic: true, failure: None, aborted: false, replies: Vec::new() }
    }

    /// Sends the commands one after another; another client's may come between them.
    pub(crate) fn send(commands: &Commands, wire: &mut Vec<u8>) -> Self {
        wire.extend_from_slice(&commands.bytes);
        Self { left: commands.count, atomic: false, failure: None, aborted: false, replies: Vec::new() }
    }

    /// How many replies are still to come.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Takes the next reply; true once all are there.
    pub(crate) fn handle_reply(&mut self, reply: &[u8]) -> bool {
        self.left = self.left.saturating_sub(1);
        let is_error = matches!(reply.first(), Some(b'-' | b'!'));
        if !self.atomic {
            self.replies.push(reply.to_vec());
        } else if is_error {
            // The first error says why; EXEC's own says only that there was one.
            self.failure.get_or_insert_with(|| reply.to_vec());
        } else if self.left == 0 {
            match split_array(reply) {
                Some(replies) => self.replies = replies,
                None => self.aborted = true,
            }
        }
        self.left == 0
    }

    /// Whether EXEC answered nil: a watched key had changed, and nothing was carried out.
    pub(crate) fn aborted(&self) -> bool {
        self.aborted
    }

    /// The reply to each command, just as it came.
    ///
    /// # Errors
    /// The error reply, as it came, where the commands weren't carried out.
    pub(crate) fn take(&mut self) -> Result<Vec<Vec<u8>>, Vec<u8>> {
        match self.failure.take() {
            Some(error) => Err(error),
            None => Ok(mem::take(&mut self.replies)),
        }
    }
}

/// The elements of an array reply, each as it came; none where it is no array.
pub(crate) fn split_array(reply: &[u8]) -> Option<Vec<Vec<u8>>> {
    let Ok(Reply::Array(mut elements)) = Reply::parse(reply) else { return None };
    let mut replies = Vec::with_capacity(elements.len().min(1024));
    while let Some(element) = elements.next_raw() {
        replies.push(element.to_vec());
    }
    Some(replies)
}
