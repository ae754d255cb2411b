//! The server that is looked at: its connection, at a pace that doesn't disturb it, until somebody stops it.

use std::num::NonZero;

use keyfold_server::interrupt::Interrupt;
use keyfold_server::pace::Pace;
use keyfold_server::priority;
use keyfold_server::{Commands, Server};

pub(super) struct Patient {
    pub(super) server: Server,
    interrupt: Interrupt,
    pace: Pace,
}

impl Patient {
    /// Takes signals from now on: the first stops the walk, the second the program.
    pub(super) fn new(server: Server, max_ops: Option<NonZero<u32>>) -> anyhow::Result<Self> {
        let interrupt = Interrupt::listen()?;
        priority::give_way();
        let mut patient = Self { server, interrupt, pace: Pace::new(max_ops) };
        patient.server.leave_untouched()?;
        Ok(patient)
    }

    /// Whether somebody wants it to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.interrupt.wanted()
    }

    /// Sends several commands at once, each counting as one.
    pub(super) fn ask_all(&mut self, commands: &Commands) -> anyhow::Result<Vec<Vec<u8>>> {
        self.spend(commands.len() as u64);
        self.server.ask_all(commands)
    }

    /// Sends one command; its reply as it came.
    pub(super) fn ask(&mut self, command: &[&[u8]]) -> anyhow::Result<Vec<u8>> {
        let mut commands = Commands::default();
        commands.push(command);
        Ok(self.ask_all(&commands)?.pop().unwrap_or_default())
    }

    /// Counts work as done, and waits until more is due.
    pub(super) fn spend(&mut self, ops: u64) {
        let interrupt = &self.interrupt;
        self.pace.spend_unless(ops, &|| interrupt.wanted());
    }
}
