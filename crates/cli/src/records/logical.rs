//! Logical commands over a tool's connection: the core's [`Conversations`], many at once.

use anyhow::Context as _;
use keyfold_core::drive::{Context, Conversations, Outside};
use keyfold_core::layout::Layout;
use keyfold_proxy::Nonces;

use keyfold_server::{Server, ServerTime};

/// Commands gathered before they are sent.
const WIRE_BYTES: usize = 64 * 1024;

/// Commands under way, each with what its asker wants to know of it when it is answered. Two on one key must not be
/// under way together.
pub(crate) struct Logical<'a, T> {
    server: &'a mut Server,
    nonces: Nonces,
    time: ServerTime,
    conversations: Conversations<'a, T>,
    /// Replies to all that was sent.
    sent: u64,
    /// Replies to what had been begun when that was last asked.
    told: u64,
}

impl<'a, T> Logical<'a, T> {
    /// A driver over `server`, in database 0.
    pub(crate) fn new(server: &'a mut Server, layout: &'a Layout) -> anyhow::Result<Self> {
        server.select(0)?;
        let time = ServerTime::ask(server)?;
        let nonces = Nonces::new().context("the system has no randomness to give")?;
        let conversations = Conversations::new(Context::new(layout, server.version().info()));
        Ok(Self { server, nonces, time, conversations, sent: 0, told: 0 })
    }

    /// The server's time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.time.now_ms()
    }

    /// How many commands are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.conversations.under_way()
    }

    /// Goes on in another database. Nothing may be under way.
    pub(crate) fn select(&mut self, database: u32) -> anyhow::Result<()> {
        debug_assert_eq!(self.under_way(), 0, "answers of another database are outstanding");
        self.server.select(database)
    }

    /// Begins a command on keys; [`Self::answer`] gives `about` back with its answer.
    pub(crate) fn begin(&mut self, args: &[&[u8]], about: T) -> anyhow::Result<()> {
        let nonces = &mut || self.nonces.draw();
        self.conversations.begin(args, about, &mut Outside { now_ms: self.time.now_ms(), nonces })?;
        if self.conversations.wire().len() >= WIRE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Waits for the next command to be answered; none where nothing is under way.
    pub(crate) fn answer(&mut self) -> anyhow::Result<Option<(T, Vec<u8>)>> {
        loop {
            if let Some(answered) = self.conversations.poll_answer() {
                return Ok(Some(answered));
            }
            if self.under_way() == 0 {
                return Ok(None);
            }
            self.flush()?;
            let reply = self.server.receive()?;
            let nonces = &mut || self.nonces.draw();
            self.conversations.handle_reply(&reply, &mut Outside { now_ms: self.time.now_ms(), nonces })?;
        }
    }

    /// How many commands were sent since this was last asked.
    pub(crate) fn take_commands(&mut self) -> u64 {
        let commands = self.conversations.commands();
        commands - std::mem::replace(&mut self.told, commands)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let commands = self.conversations.commands();
        let wire = self.conversations.wire();
        if !wire.is_empty() {
            self.server.send(wire, commands - std::mem::replace(&mut self.sent, commands))?;
            wire.clear();
        }
        Ok(())
    }
}
