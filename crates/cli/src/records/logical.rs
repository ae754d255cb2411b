//! Logical commands over a tool's connection: the core's session and exchanges, many at once.
//!
//! Each command is a client of its own to the core, so that none waits for another's second round trip. So two
//! commands on one key must not be under way together: whoever drives this waits for the first one.

use std::sync::Arc;

use std::collections::{HashMap, VecDeque};

use anyhow::{Context, bail};
use keyfold_core::access::Users;
use keyfold_core::exchange::{Env, Exchange, Io, ServerInfo, Step};
use keyfold_core::layout::Layout;
use keyfold_core::session::{Begun, Peer, Session};
use keyfold_core::stats::Stats;
use keyfold_proxy::Nonces;

use crate::server::{Pipelined, Server, ServerTime, reply};

/// Commands gathered before they are sent.
const WIRE_BYTES: usize = 64 * 1024;

/// Commands under way, each with what its asker wants to know of it when it is answered.
pub(crate) struct Logical<'a, T> {
    server: Pipelined<'a>,
    layout: &'a Layout,
    stats: Stats,
    users: Users,
    info: ServerInfo,
    nonces: Nonces,
    time: ServerTime,
    session: Session,
    wire: Vec<u8>,
    /// Replies to what is in `wire`.
    unsent: u64,
    /// Whose replies come next, and how many.
    awaited: VecDeque<(u64, u32)>,
    exchanges: HashMap<u64, (Exchange, Vec<u8>, T)>,
    next: u64,
    /// Answers that needed no server.
    answered: VecDeque<(T, Vec<u8>)>,
    commands: u32,
}

impl<'a, T> Logical<'a, T> {
    /// A driver over `server`, in database 0.
    pub(crate) fn new(server: &'a mut Server, layout: &'a Layout) -> anyhow::Result<Self> {
        server.select(0)?;
        let time = ServerTime::ask(server)?;
        let info =
            ServerInfo { name: server.version().flavor.to_ascii_lowercase(), version: server.version().redis_number() };
        let (stats, users) = (Stats::new(layout.namespaces().len()), Users::open());
        // Values of before may be spilled: a write must look at what it replaces.
        layout.iter().for_each(|(index, _)| stats.namespace(index).note_spilled());
        let nonces = Nonces::new().context("the system has no randomness to give")?;
        let session = Session::new(
            Peer::default(),
            &Arc::default(),
            &Env { now_ms: 0, nonces: &mut || 0, server: &info, layout, stats: &stats, users: &users },
        );
        Ok(Self {
            server: server.pipelined(),
            layout,
            stats,
            users,
            info,
            nonces,
            time,
            session,
            wire: Vec::new(),
            unsent: 0,
            awaited: VecDeque::new(),
            exchanges: HashMap::new(),
            next: 0,
            answered: VecDeque::new(),
            commands: 0,
        })
    }

    /// The server's time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.time.now_ms()
    }

    /// How many commands are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.exchanges.len() + self.answered.len()
    }

    /// Goes on in another database. Nothing may be under way.
    pub(crate) fn select(&mut self, database: u32) -> anyhow::Result<()> {
        debug_assert_eq!(self.under_way(), 0, "answers of another database are outstanding");
        self.server.idle_server().select(database)
    }

    /// Begins a command on keys; [`Self::answer`] gives `about` back with its answer.
    pub(crate) fn begin(&mut self, args: &[&[u8]], about: T) -> anyhow::Result<()> {
        let Self { layout, stats, users, info, nonces, time, session, wire, .. } = self;
        let now_ms = time.now_ms();
        let mut draw = || nonces.draw();
        let mut env = Env { now_ms, nonces: &mut draw, server: info, layout, stats, users };
        let plan = session.plan(args, &env);
        let mut answer = Vec::new();
        match session.begin(&plan, args, None, &mut env, &mut Io { wire, answer: &mut answer }) {
            Begun::Answered => self.answered.push_back((about, answer)),
            Begun::Sent { exchange, replies, .. } => {
                self.awaited.push_back((self.next, replies));
                self.exchanges.insert(self.next, (exchange, answer, about));
                self.next += 1;
                self.commands += replies;
                self.unsent += u64::from(replies);
            }
            Begun::Pushes | Begun::Close => bail!("{} is no command for tools", args[0].escape_ascii()),
        }
        if self.wire.len() >= WIRE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Waits for the next command to be answered; none where nothing is under way.
    pub(crate) fn answer(&mut self) -> anyhow::Result<Option<(T, Vec<u8>)>> {
        if let Some(answered) = self.answered.pop_front() {
            return Ok(Some(answered));
        }
        self.flush()?;
        while let Some((slot, left)) = self.awaited.front_mut() {
            let slot = *slot;
            *left -= 1;
            if *left == 0 {
                self.awaited.pop_front();
            }
            if let Some(answered) = self.take_reply(slot)? {
                return Ok(Some(answered));
            }
        }
        Ok(None)
    }

    /// How many commands were sent since this was last asked.
    pub(crate) fn take_commands(&mut self) -> u32 {
        std::mem::take(&mut self.commands)
    }

    fn take_reply(&mut self, slot: u64) -> anyhow::Result<Option<(T, Vec<u8>)>> {
        let mut reply = Vec::new();
        reply::encode(&self.server.receive()?, &mut reply);
        let Self { layout, stats, users, info, nonces, time, wire, exchanges, .. } = self;
        let now_ms = time.now_ms();
        let mut draw = || nonces.draw();
        let mut env = Env { now_ms, nonces: &mut draw, server: info, layout, stats, users };
        let Some((exchange, answer, _)) = exchanges.get_mut(&slot) else {
            bail!("the server sent a reply that nothing had asked for");
        };
        match exchange.handle_reply(&reply, &mut env, &mut Io { wire, answer }) {
            Step::Wait => Ok(None),
            Step::More(replies) => {
                self.awaited.push_back((slot, replies));
                self.commands += replies;
                self.unsent += u64::from(replies);
                self.flush()?;
                Ok(None)
            }
            Step::Unexpected => {
                bail!("the server answered with '{}', which is no reply to what was asked", reply.escape_ascii())
            }
            Step::Done(_) => Ok(self.exchanges.remove(&slot).map(|(_, answer, about)| (about, answer))),
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if !self.wire.is_empty() {
            self.server.send(&self.wire, std::mem::take(&mut self.unsent))?;
            self.wire.clear();
        }
        Ok(())
    }
}
