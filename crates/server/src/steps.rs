//! Steps to the nodes of a cluster, many under way at once: each goes to the node that has its slot, and is followed where
//! nodes lead it, by the core's [`Router`].
//!
//! ```text
//! begin ──▶ the slot's node ──replies──▶ next
//!              ▲          │ MOVED, ASK, TRYAGAIN, a lost connection
//!              └──────────┘
//! ```
//! There is one connection to each node that a step went to. Answers come in any order.

use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::cluster::{Landed, Node, Order, Router, SlotMap, Step, Tries};
use keyfold_core::slot::Slot;

use crate::connection::{Server, Target};
use crate::node;

/// How long nodes are tried, and how often.
const TRIES: Tries = Tries { give_up_after_ms: 30_000, pause_ms: 50 };
/// So long nothing is done where all that is under way waits.
const WAIT: Duration = Duration::from_millis(10);
/// Nodes are asked for the map at most so often.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Steps under way, each with what its asker wants to know of it when it is answered.
pub struct Steps<W> {
    router: Router<Asked<W>>,
    links: BTreeMap<Node, NodeLink<W>>,
    target: Target,
    database: u32,
    prepare: Prepare,
    loss_ends_all: bool,
    end: Option<anyhow::Error>,
    answered: VecDeque<(W, Vec<Vec<u8>>)>,
    under_way: usize,
    begun: u64,
    since: Instant,
    map_asked: Option<Instant>,
}

/// What is done with a connection before it is used.
pub type Prepare = Box<dyn FnMut(&mut Server) -> anyhow::Result<()>>;

struct Asked<W> {
    whose: W,
    replies: u32,
    had: Vec<Vec<u8>>,
}

struct NodeLink<W> {
    server: Server,
    wire: Vec<u8>,
    /// Replies to what is in `wire`.
    expected: u64,
    /// What was sent, each with how many replies are to come.
    sent: VecDeque<(Box<Step<Asked<W>>>, u32)>,
}

impl<W> Steps<W> {
    /// Steps to the nodes of this map, which `target` leads to.
    pub(crate) fn new(map: SlotMap, target: Target, prepare: Prepare) -> Self {
        Self {
            router: Router::new(map, TRIES),
            links: BTreeMap::new(),
            target,
            database: 0,
            prepare,
            loss_ends_all: false,
            end: None,
            answered: VecDeque::new(),
            under_way: 0,
            begun: 0,
            since: Instant::now(),
            map_asked: None,
        }
    }

    /// Nothing is carried out any more once a connection was lost, or could not be prepared: whoever closed it may not want
    /// what is asked here.
    pub fn let_loss_end_all(&mut self) {
        self.loss_ends_all = true;
    }

    /// How many are under way, or answered and not taken.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Goes on in another database. Nothing may be under way.
    ///
    /// # Errors
    /// A node refuses it.
    pub fn select(&mut self, database: u32) -> anyhow::Result<()> {
        debug_assert_eq!(self.under_way, 0, "answers of another database are outstanding");
        self.database = database;
        self.links.values_mut().try_for_each(|link| link.server.select(database))
    }

    /// Begins a step: commands of one slot, which have so many replies. [`Self::answer`] gives `whose` back with these.
    pub fn begin(&mut self, whose: W, slot: Slot, commands: Vec<u8>, replies: u32) {
        self.under_way += 1;
        self.begun += 1;
        let asked = Asked { whose, replies, had: Vec::new() };
        let now_ms = self.now_ms();
        let step = Step::new(asked, self.begun, slot, commands, now_ms);
        if let Some((node, step)) = self.router.begin(step, now_ms) {
            self.put(node, step);
        }
    }

    /// Waits for the next step to be answered: an error where no node carried it out; none where nothing is under way.
    ///
    /// # Errors
    /// None of the nodes says who has which slot any more, or see [`Self::let_loss_end_all`].
    pub fn answer(&mut self) -> anyhow::Result<Option<(W, Vec<Vec<u8>>)>> {
        loop {
            if let Some(answered) = self.answered.pop_front() {
                self.under_way -= 1;
                return Ok(Some(answered));
            }
            if self.under_way == 0 {
                return Ok(None);
            }
            self.go_on();
            self.flush();
            if let Some(error) = self.end.take() {
                return Err(error);
            }
            let next = self.links.iter().find(|(_, link)| !link.sent.is_empty()).map(|(node, _)| *node);
            match next {
                Some(node) => self.receive(node),
                None if self.answered.is_empty() => thread::sleep(WAIT),
                None => {}
            }
            if self.router.take_wish_for_map() {
                self.refresh()?;
            }
        }
    }

    /// One step, while nothing else is under way.
    ///
    /// # Errors
    /// See [`Self::answer`].
    pub fn carry_out(&mut self, whose: W, slot: Slot, commands: Vec<u8>, replies: u32) -> anyhow::Result<Vec<Vec<u8>>> {
        self.begin(whose, slot, commands, replies);
        Ok(self.answer()?.map(|(_, replies)| replies).unwrap_or_default())
    }

    /// Where the node is that has a slot, as far as is known.
    pub fn owner(&self, slot: Slot) -> String {
        let map = self.router.map();
        map.primary(slot).map_or_else(|| "nobody".to_owned(), |node| map.endpoint(node).to_string())
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Sends what waited.
    fn go_on(&mut self) {
        let now_ms = self.now_ms();
        while let Some(order) = self.router.poll(now_ms) {
            match order {
                Order::Send(node, step) => self.put(node, step),
                Order::Answer(asked, rest) => self.settle(asked, rest),
            }
        }
    }

    fn put(&mut self, node: Node, mut step: Box<Step<Asked<W>>>) {
        if !self.links.contains_key(&node) {
            match self.connect(node) {
                Ok(server) => {
                    let link = NodeLink { server, wire: Vec::new(), expected: 0, sent: VecDeque::new() };
                    self.links.insert(node, link);
                }
                Err(error) => {
                    let now_ms = self.now_ms();
                    return self.router.give_back(node, step, &format!("{error:#}"), now_ms);
                }
            }
        }
        if let Some(link) = self.links.get_mut(&node) {
            let replies = step.write(&mut link.wire).unwrap_or(step.whose.replies);
            link.expected += u64::from(replies);
            link.sent.push_back((step, replies));
        }
    }

    fn connect(&mut self, node: Node) -> anyhow::Result<Server> {
        let address = node::at(&self.target.address, self.router.map().endpoint(node));
        let mut server = Server::connect_to_node(&Target { address, ..self.target.clone() })?;
        let prepared = (self.prepare)(&mut server).and_then(|()| server.select(self.database));
        match prepared {
            Err(error) if self.loss_ends_all => {
                let told = anyhow::anyhow!("{error:#}");
                self.end = Some(error);
                Err(told)
            }
            prepared => prepared.map(|()| server),
        }
    }

    fn flush(&mut self) {
        let mut lost = Vec::new();
        for (node, link) in self.links.iter_mut().filter(|(_, link)| !link.wire.is_empty()) {
            if let Err(error) = link.server.send(&link.wire, std::mem::take(&mut link.expected)) {
                lost.push((*node, error));
            }
            link.wire.clear();
        }
        lost.into_iter().for_each(|(node, error)| self.lose(node, &error));
    }

    fn receive(&mut self, node: Node) {
        let now_ms = self.now_ms();
        let Some(link) = self.links.get_mut(&node) else { return };
        let reply = match link.server.receive() {
            Ok(reply) => reply,
            Err(error) => return self.lose(node, &error),
        };
        let Some((step, left)) = link.sent.front_mut() else { return };
        if step.handle_reply(&reply) == Landed::HandOut {
            step.whose.had.push(reply);
        }
        *left -= 1;
        if *left == 0
            && let Some((step, _)) = link.sent.pop_front()
            && let Some((asked, rest)) = self.router.finish(node, step, now_ms)
        {
            self.settle(asked, rest);
        }
    }

    /// What the connection took with it is sent again where it only reads.
    fn lose(&mut self, node: Node, error: &anyhow::Error) {
        let now_ms = self.now_ms();
        let Some(link) = self.links.remove(&node) else { return };
        if self.loss_ends_all {
            self.end = Some(anyhow::anyhow!("{error:#}"));
        }
        for (step, _) in link.sent {
            if let Some((asked, rest)) = self.router.lose(node, step, &format!("{error:#}"), now_ms) {
                self.settle(asked, rest);
            }
        }
    }

    fn settle(&mut self, asked: Asked<W>, rest: Vec<Vec<u8>>) {
        let Asked { whose, mut had, .. } = asked;
        had.extend(rest);
        self.answered.push_back((whose, had));
    }

    /// Asks for the map, on a connection on which nothing is under way.
    fn refresh(&mut self) -> anyhow::Result<()> {
        if self.map_asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY) {
            return Ok(());
        }
        self.map_asked = Some(Instant::now());
        let map = self.router.map();
        let known = map.primaries().into_keys().map(|node| node::at(&self.target.address, map.endpoint(node)));
        let known: Vec<_> = known.chain([self.target.address.clone()]).collect();
        let mut trouble = None;
        for address in known {
            let target = Target { address, ..self.target.clone() };
            let asked = self.router.map().ask();
            match Server::connect_to_node(&target).and_then(|mut server| node::ask(&mut server, &target)) {
                Ok(topology) => {
                    self.router.adopt(&topology, asked);
                    return Ok(());
                }
                Err(error) => trouble = Some(error),
            }
        }
        // As long as connections live, some slots may be served on.
        match trouble {
            Some(error) if self.links.is_empty() => Err(error),
            _ => Ok(()),
        }
    }
}
