//! Commands that travel together: packed by hand, as a pipeline of owned commands would be the walk's largest cost.

use redis::Value;

use crate::server::Server;

/// Commands to send at once.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    commands: usize,
}

impl Batch {
    pub(super) fn push(&mut self, args: &[&[u8]]) {
        self.commands += 1;
        self.head(b'*', args.len());
        for arg in args {
            self.head(b'$', arg.len());
            self.bytes.extend_from_slice(arg);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    fn head(&mut self, mark: u8, number: usize) {
        self.bytes.push(mark);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn commands(&self) -> u64 {
        self.commands as u64
    }

    /// Sends what was pushed, and takes one answer for each command; an error that the server answers is one. The
    /// batch is empty afterwards.
    pub(super) fn send(&mut self, server: &mut Server) -> anyhow::Result<Vec<Value>> {
        let answers = server.exchange_values(&self.bytes, std::mem::take(&mut self.commands))?;
        self.bytes.clear();
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_packed_as_resp() {
        let mut batch = Batch::default();
        batch.push(&[b"GET", b"a\r\nb"]);
        batch.push(&[b"PING"]);
        assert_eq!(batch.bytes, b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n");
        assert_eq!(batch.commands(), 2);
    }
}
