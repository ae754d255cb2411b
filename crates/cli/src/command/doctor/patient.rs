//! The server that is looked at: its connection, at a pace that doesn't disturb it, until somebody stops it.

use std::num::NonZero;

use redis::{Pipeline, Value};

use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::server::pace::Pace;

pub(super) struct Patient {
    pub(super) server: Server,
    interrupt: Interrupt,
    pace: Pace,
}

impl Patient {
    /// Takes signals from now on: the first stops the walk, the second the program.
    pub(super) fn new(server: Server, max_ops: Option<NonZero<u32>>) -> anyhow::Result<Self> {
        let interrupt = Interrupt::listen()?;
        let mut patient = Self { server, interrupt, pace: Pace::new(max_ops) };
        // Looking at a key isn't using it (Redis 7.2 and later); who doesn't know the command goes without.
        let mut commands = redis::pipe();
        commands.cmd("CLIENT").arg("NO-TOUCH").arg("ON");
        patient.server.ask_all(&commands)?;
        Ok(patient)
    }

    /// Whether somebody wants it to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.interrupt.wanted()
    }

    /// Sends several commands at once, each counting as one.
    pub(super) fn ask_all(&mut self, commands: &Pipeline) -> anyhow::Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.spend(commands.len() as u64);
        self.server.ask_all(commands)
    }

    /// Counts work as done, and waits until more is due.
    pub(super) fn spend(&mut self, ops: u64) {
        let interrupt = &self.interrupt;
        self.pace.spend_unless(ops, &|| interrupt.wanted());
    }
}

/// The bytes of a reply; none where it is anything else.
pub(super) fn bytes(reply: Value) -> Option<Vec<u8>> {
    match reply {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// The integer that a reply is.
pub(super) fn integer(reply: &Value) -> Option<i64> {
    match reply {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

/// A step of SCAN or HSCAN: where it goes on, and what it brought.
pub(super) fn scan_step(reply: Value) -> Option<(u64, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return None };
    let mut parts = parts.into_iter();
    let cursor = std::str::from_utf8(&bytes(parts.next()?)?).ok()?.parse().ok()?;
    let Some(Value::Array(items)) = parts.next() else { return None };
    Some((cursor, items.into_iter().filter_map(bytes).collect()))
}
