//! One client of a cluster, as a proxy would serve it, over blocking connections.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keyfold_core::clients::Clients;
use keyfold_core::cluster::{AddressMap, Endpoint, Front, Node, Order, Router, SlotMap, Step, Target, Topology, Tries};
use keyfold_core::drive::{Context, Conversation, Progress, Started};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::layout::Layout;
use keyfold_core::session::{Peer, Session};
use keyfold_core::slot::Slot;
use keyfold_testkit::wire::{Wire, WireError};
use keyfold_testkit::{Binary, Cluster, Value};

/// A namespace of ints, each in the one bucket of its slot.
pub(crate) const LAYOUT: &str = "cluster = true\n[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { count = 1 }\n";

const TRIES: Tries = Tries { give_up_after_ms: 30_000, pause_ms: 20 };

pub(crate) fn layout() -> Layout {
    Layout::parse_file(LAYOUT).unwrap()
}

pub(crate) struct Driver<'l> {
    context: Context<'l>,
    client: Conversation,
    router: Router<()>,
    links: BTreeMap<Node, Wire>,
    seeds: Vec<Endpoint>,
    nonce: u64,
    /// How many steps were sent.
    pub(crate) steps: usize,
}

impl<'l> Driver<'l> {
    pub(crate) fn new(cluster: &Cluster, layout: &'l Layout, front: Front) -> Self {
        let seeds = cluster
            .nodes()
            .iter()
            .map(|node| Endpoint { host: node.address().ip().to_string(), port: node.address().port() });
        let rules = keyfold_core::exchange::ClusterRules::default();
        let context = Context::without_data(layout, server_info(cluster.binary())).before_cluster(rules);
        let mut session = {
            let nonces = &mut || 0;
            let env = context.env(now_ms(), nonces);
            Session::new(Peer::default(), &Arc::new(Clients::default()), &env)
        };
        session.set_front(front);
        let mut driver = Self {
            context,
            client: Conversation::new(session),
            router: Router::new(SlotMap::new(AddressMap::default()), TRIES),
            links: BTreeMap::new(),
            seeds: seeds.collect(),
            nonce: 0,
            steps: 0,
        };
        driver.refresh();
        driver
    }

    /// A client that knows no cluster.
    pub(crate) fn plain(cluster: &Cluster, layout: &'l Layout) -> Self {
        Self::new(cluster, layout, Front { before_cluster: true, announced: None })
    }

    /// Asks the first node that answers who has which slot.
    fn refresh(&mut self) {
        for seed in self.seeds.clone() {
            let node = self.router.map_mut().node(&seed);
            let mut questions = Vec::new();
            let asked = self.router.map().ask();
            let count = Topology::ask(&mut questions);
            let replies = self.on_link(node, |link| {
                link.send_bytes(&questions)?;
                (0..count).map(|_| link.reply()).collect::<Result<Vec<_>, _>>()
            });
            let Ok(replies) = replies else { continue };
            if let Ok(topology) = Topology::read(&replies, &seed, &AddressMap::default()) {
                self.router.adopt(&topology, asked);
                return;
            }
        }
    }

    fn on_link<R>(&mut self, node: Node, talk: impl FnOnce(&mut Wire) -> Result<R, WireError>) -> Result<R, WireError> {
        let endpoint = self.router.map().endpoint(node);
        let talked = match self.links.entry(node) {
            Entry::Occupied(link) => talk(link.into_mut()),
            Entry::Vacant(free) => talk(free.insert(Wire::connect((endpoint.host.as_str(), endpoint.port))?)),
        };
        if talked.is_err() {
            self.links.remove(&node);
        }
        talked
    }

    /// Carries out a command; its answer as it came.
    pub(crate) fn raw(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let (mut wire, mut out) = (Vec::new(), Vec::new());
        self.nonce += 1000;
        let mut nonce = self.nonce;
        let mut nonces = || {
            nonce += 1;
            nonce
        };
        let mut env = self.context.env(now_ms(), &mut nonces);
        let plan = self.client.plan(args, &env).unwrap();
        let begun = self.client.begin(&plan, args, None, &mut env, &mut wire, &mut out);
        let Started::Sent { slot: request, mut replies } = begun else { return out };
        let home = match &plan.target {
            Target::Slot(slot) => *slot,
            Target::Any => Slot::new(7).unwrap(),
            other => panic!("{other:?} takes several requests"),
        };
        loop {
            let goal = self.client.goes_to(request);
            let answers = self.step(goal.unwrap_or(home), std::mem::take(&mut wire), replies);
            let mut env = self.context.env(now_ms(), &mut nonces);
            for reply in answers {
                match self.client.handle_reply(request, &reply, &mut env, &mut wire, &mut out) {
                    Progress::Kept => {}
                    Progress::More(more) => replies = more,
                    Progress::Unexpected => panic!("{} is no reply", reply.escape_ascii()),
                }
            }
            if self.client.in_flight() == 0 {
                return out;
            }
        }
    }

    pub(crate) fn bytes(&mut self, args: &[&[u8]]) -> Value {
        Value::parse(&self.raw(args)).unwrap()
    }

    pub(crate) fn ask(&mut self, command: &str) -> Value {
        self.bytes(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Sends a step, and follows where it is led.
    fn step(&mut self, slot: Slot, commands: Vec<u8>, replies: u32) -> Vec<Vec<u8>> {
        self.steps += 1;
        let step = Step::new((), 1, slot, commands, now_ms());
        let mut next = self.router.begin(step, now_ms());
        let mut answers = Vec::new();
        loop {
            if let Some((node, mut step)) = next.take() {
                let mut bytes = Vec::new();
                let count = step.write(&mut bytes).unwrap_or(replies);
                let talked = self.on_link(node, |link| {
                    link.send_bytes(&bytes)?;
                    for _ in 0..count {
                        let reply = link.reply()?;
                        if step.handle_reply(&reply) == keyfold_core::cluster::Landed::HandOut {
                            answers.push(reply);
                        }
                    }
                    Ok(())
                });
                let settled = match talked {
                    Ok(()) => self.router.finish(node, step, now_ms()),
                    Err(_) => self.router.lose(node, step, "the connection was lost", now_ms()),
                };
                if let Some(((), rest)) = settled {
                    answers.extend(rest);
                    return answers;
                }
            }
            if self.router.take_wish_for_map() {
                self.refresh();
            }
            match self.router.poll(now_ms()) {
                Some(Order::Send(node, step)) => next = Some((node, step)),
                Some(Order::Answer((), rest)) => {
                    answers.extend(rest);
                    return answers;
                }
                None => sleep(Duration::from_millis(5)),
            }
        }
    }

    /// One page of SCAN: the next cursor, and keys.
    pub(crate) fn page(&mut self, cursor: u64, options: &str) -> (u64, Vec<String>) {
        let page = self.ask(format!("SCAN {cursor} {options}").trim_end());
        let Some([cursor, keys]) = page.elements() else { panic!("{page:?} is no page") };
        let cursor: u64 = text(cursor).parse().unwrap();
        assert!(cursor < 1 << 53, "{cursor}");
        (cursor, keys.elements().unwrap().iter().map(text).collect())
    }

    /// All pages, with how many they were; `between` is called after each, with its cursor.
    pub(crate) fn scan(&mut self, options: &str, mut between: impl FnMut(usize, u64)) -> (Vec<String>, usize) {
        let (mut all, mut cursor, mut pages) = (Vec::new(), 0, 0);
        loop {
            let (next, keys) = self.page(cursor, options);
            all.extend(keys);
            pages += 1;
            assert!(pages < 20_000, "it comes to no end: {cursor}, {next}");
            cursor = next;
            if cursor == 0 {
                return (all, pages);
            }
            between(pages, cursor);
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    String::from_utf8(value.bytes().unwrap_or_else(|| panic!("{value:?}")).to_vec()).unwrap()
}

fn server_info(binary: &Binary) -> ServerInfo {
    let version = binary.version();
    ServerInfo {
        name: binary.name().split(' ').next().unwrap().to_owned(),
        version: format!("{}.{}.{}", version.major, version.minor, version.patch),
    }
}

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}
