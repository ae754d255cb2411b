//! Logical commands over a tool's connections: the core's [`Conversations`] to one server, or its conversations step by
//! step to the nodes of a cluster; many at once.

use std::collections::VecDeque;

use anyhow::{Context as _, bail};
use keyfold_core::cluster::Target;
use keyfold_core::drive::{Context, Conversation, Conversations, Outside, Progress, Started};
use keyfold_core::exchange::ClusterRules;
use keyfold_core::layout::Layout;
use keyfold_core::session::{Peer, Session};
use keyfold_core::slot::Slot;
use keyfold_proxy::Nonces;

use keyfold_server::steps::Prepare;
use keyfold_server::{Nodes, Server, ServerTime, Steps};

/// Commands gathered before they are sent.
const WIRE_BYTES: usize = 64 * 1024;

/// Commands under way, each with what its asker wants to know of it when it is answered. Two on one key must not be
/// under way together.
pub(crate) struct Logical<'a, T> {
    nonces: Nonces,
    time: ServerTime,
    way: Way<'a, T>,
    /// Commands begun or sent when that was last asked.
    told: u64,
}

enum Way<'a, T> {
    One { server: &'a mut Server, conversations: Box<Conversations<'a, T>>, sent: u64 },
    Nodes(Box<OverNodes<'a, T>>),
}

/// Conversations over the nodes of a cluster.
struct OverNodes<'a, T> {
    context: Context<'a>,
    steps: Steps<Asked<T>>,
    /// Answered without any node.
    answered: VecDeque<(T, Vec<u8>)>,
    commands: u64,
}

/// One command with its conversation.
struct Asked<T> {
    conversation: Conversation,
    request: u64,
    slot: Slot,
    answer: Vec<u8>,
    about: T,
}

impl<'a, T> Logical<'a, T> {
    /// A driver over one server or all nodes, in database 0. Connections to nodes are opened as they are needed, and used
    /// once `prepare` has seen them; one that is lost ends all.
    pub(crate) fn new(nodes: &'a mut Nodes, layout: &'a Layout, prepare: Prepare) -> anyhow::Result<Self> {
        let time = ServerTime::ask(nodes.first())?;
        let nonces = Nonces::new().context("the system has no randomness to give")?;
        let context = Context::new(layout, nodes.first().version().info());
        let way = match nodes.steps(prepare) {
            Some(mut steps) => {
                steps.let_loss_end_all();
                let context = context.before_cluster(ClusterRules::default());
                Way::Nodes(Box::new(OverNodes { context, steps, answered: VecDeque::new(), commands: 0 }))
            }
            None => {
                let server = nodes.first();
                server.select(0)?;
                Way::One { server, conversations: Box::new(Conversations::new(context)), sent: 0 }
            }
        };
        Ok(Self { nonces, time, way, told: 0 })
    }

    /// The server's time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.time.now_ms()
    }

    /// How many commands are under way.
    pub(crate) fn under_way(&self) -> usize {
        match &self.way {
            Way::One { conversations, .. } => conversations.under_way(),
            Way::Nodes(nodes) => nodes.steps.under_way() + nodes.answered.len(),
        }
    }

    /// Goes on in another database. Nothing may be under way.
    pub(crate) fn select(&mut self, database: u32) -> anyhow::Result<()> {
        debug_assert_eq!(self.under_way(), 0, "answers of another database are outstanding");
        match &mut self.way {
            Way::One { server, .. } => server.select(database),
            Way::Nodes(nodes) => nodes.steps.select(database),
        }
    }

    /// Begins a command on one key; [`Self::answer`] gives `about` back with its answer.
    pub(crate) fn begin(&mut self, args: &[&[u8]], about: T) -> anyhow::Result<()> {
        let nonces = &mut || self.nonces.draw();
        let outside = &mut Outside { now_ms: self.time.now_ms(), nonces };
        match &mut self.way {
            Way::Nodes(nodes) => nodes.begin(args, about, outside),
            Way::One { conversations, server, sent } => {
                conversations.begin(args, about, outside)?;
                if conversations.wire().len() < WIRE_BYTES { Ok(()) } else { flush(conversations, server, sent) }
            }
        }
    }

    /// Waits for the next command to be answered; none where nothing is under way.
    pub(crate) fn answer(&mut self) -> anyhow::Result<Option<(T, Vec<u8>)>> {
        let time = self.time;
        match &mut self.way {
            Way::Nodes(nodes) => nodes.answer(time, &mut self.nonces),
            Way::One { conversations, server, sent } => loop {
                if let Some(answered) = conversations.poll_answer() {
                    return Ok(Some(answered));
                }
                if conversations.under_way() == 0 {
                    return Ok(None);
                }
                flush(conversations, server, sent)?;
                let reply = server.receive()?;
                let nonces = &mut || self.nonces.draw();
                conversations.handle_reply(&reply, &mut Outside { now_ms: time.now_ms(), nonces })?;
            },
        }
    }

    /// How many commands were sent since this was last asked.
    pub(crate) fn take_commands(&mut self) -> u64 {
        let commands = match &self.way {
            Way::One { conversations, .. } => conversations.commands(),
            Way::Nodes(nodes) => nodes.commands,
        };
        commands - std::mem::replace(&mut self.told, commands)
    }
}

fn flush<T>(conversations: &mut Conversations<'_, T>, server: &mut Server, sent: &mut u64) -> anyhow::Result<()> {
    let commands = conversations.commands();
    let wire = conversations.wire();
    if !wire.is_empty() {
        server.send(wire, commands - std::mem::replace(sent, commands))?;
        wire.clear();
    }
    Ok(())
}

impl<T> OverNodes<'_, T> {
    fn begin(&mut self, args: &[&[u8]], about: T, outside: &mut Outside<'_>) -> anyhow::Result<()> {
        let mut env = self.context.env(outside.now_ms, &mut *outside.nonces);
        let mut conversation = Conversation::new(Session::new(Peer::default(), &std::sync::Arc::default(), &env));
        let named = || args.first().unwrap_or(&&b""[..]).escape_ascii().to_string();
        let Some(plan) = conversation.plan(args, &env) else { bail!("{} does not stand by itself", named()) };
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        match conversation.begin(&plan, args, None, &mut env, &mut wire, &mut answer) {
            Started::Answered => self.answered.push_back((about, answer)),
            Started::Sent { slot: request, replies } => {
                let Target::Slot(slot) = plan.target else { bail!("{} is of no slot", named()) };
                self.commands += u64::from(replies);
                self.steps.begin(Asked { conversation, request, slot, answer, about }, slot, wire, replies);
            }
            Started::Pushes | Started::Close => bail!("{} does not stand by itself", named()),
        }
        Ok(())
    }

    fn answer(&mut self, time: ServerTime, nonces: &mut Nonces) -> anyhow::Result<Option<(T, Vec<u8>)>> {
        loop {
            if let Some(answered) = self.answered.pop_front() {
                return Ok(Some(answered));
            }
            let Some((mut asked, replies)) = self.steps.answer()? else { return Ok(None) };
            let nonces = &mut || nonces.draw();
            let mut env = self.context.env(time.now_ms(), nonces);
            let (mut wire, mut more) = (Vec::new(), 0);
            for reply in replies {
                let Asked { conversation, request, answer, .. } = &mut asked;
                match conversation.handle_reply(*request, &reply, &mut env, &mut wire, answer) {
                    Progress::Kept => {}
                    Progress::More(replies) => more = replies,
                    Progress::Unexpected => bail!("a node answered what it was not asked: {}", reply.escape_ascii()),
                }
            }
            if asked.conversation.in_flight() == 0 {
                return Ok(Some((asked.about, asked.answer)));
            }
            self.commands += u64::from(more);
            let slot = asked.conversation.goes_to(asked.request).unwrap_or(asked.slot);
            self.steps.begin(asked, slot, wire, more);
        }
    }
}
