//! The router of a cluster's steps against nodes that move slots, fall silent, load their data and break connections, in
//! every order that chance finds: each client gets what it would have got from one server, or an error that says what
//! may have happened.

mod nodes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keyfold_core::cluster::{AddressMap, Adoption, Direct, Landed, Node, Order, Router, SlotMap, Step, Tries};
use keyfold_core::resp::write_command;
use keyfold_core::slot::Slot;
use nodes::{Cluster, Move};
use proptest::prelude::*;

/// Keys of two slots, `{a}` and `{b}`.
const KEYS: [&str; 4] = ["{a}1", "{a}2", "{b}1", "{b}2"];
const CLIENTS: usize = 3;
const TRIES: Tries = Tries { give_up_after_ms: 200, pause_ms: 10 };
/// At most so many steps of a client are under way.
const PIPELINED: usize = 3;

/// What a step does to a key of its client's own.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Get,
    Append,
    /// Within a MULTI.
    AppendAndGet,
}

/// A step that is under way: which it is of its client, and the replies that it has had.
#[derive(Debug)]
struct Asked {
    client: usize,
    key: usize,
    ask: Ask,
    text: char,
    replies: Vec<Vec<u8>>,
}

/// What a node was sent, each step with how many replies are still to come.
type Pipe = VecDeque<(Sent, u32)>;

/// A step that was sent.
enum Sent {
    /// Its commands are kept here.
    Direct {
        direct: Direct,
        number: usize,
        client: usize,
        commands: Vec<u8>,
    },
    Whole(Box<Step<usize>>),
}

impl Sent {
    fn number(&self) -> usize {
        match self {
            Self::Direct { number, .. } => *number,
            Self::Whole(step) => step.whose,
        }
    }

    fn whole(self, now_ms: i64) -> Box<Step<usize>> {
        match self {
            Self::Direct { direct, number, client, commands } => {
                Step::of(number, client as u64, direct, commands, now_ms)
            }
            Self::Whole(step) => step,
        }
    }
}

/// One world: the cluster, the router before it, and what each client knows.
struct World {
    cluster: Cluster,
    router: Router<usize>,
    pipes: BTreeMap<Node, Pipe>,
    asked: Vec<Asked>,
    under_way: [usize; CLIENTS],
    /// What each client's keys may hold, after all that was answered and lost.
    may_hold: BTreeMap<(usize, usize), BTreeSet<String>>,
    /// What each client asked of each key and has not been judged yet, in order.
    open: BTreeMap<(usize, usize), VecDeque<usize>>,
    done: BTreeSet<usize>,
    now_ms: i64,
    errors: usize,
}

impl World {
    fn new() -> Self {
        let cluster = Cluster::new(["{a}", "{b}"]);
        let mut map = SlotMap::new(AddressMap::default());
        assert_eq!(map.adopt(&cluster.topology(), map.ask()), Adoption::Adopted { changed: true });
        let keys = (0..CLIENTS).flat_map(|client| (0..KEYS.len()).map(move |key| (client, key)));
        Self {
            cluster,
            router: Router::new(map, TRIES),
            pipes: BTreeMap::new(),
            asked: Vec::new(),
            under_way: [0; CLIENTS],
            may_hold: keys.map(|key| (key, BTreeSet::from([String::new()]))).collect(),
            open: BTreeMap::new(),
            done: BTreeSet::new(),
            now_ms: 0,
            errors: 0,
        }
    }

    fn name(client: usize, key: usize) -> String {
        format!("{}:{client}", KEYS[key])
    }

    fn ask(&mut self, client: usize, key: usize, ask: Ask) {
        if self.under_way[client] == PIPELINED {
            return;
        }
        self.under_way[client] += 1;
        let (name, number) = (Self::name(client, key), self.asked.len());
        let text = char::from(b'a' + u8::try_from(number % 26).unwrap());
        let mut wire = Vec::new();
        let mut write =
            |args: &[&str]| write_command(&mut wire, &args.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>());
        match ask {
            Ask::Get => write(&["GET", &name]),
            Ask::Append => write(&["APPEND", &name, &text.to_string()]),
            Ask::AppendAndGet => {
                write(&["MULTI"]);
                write(&["APPEND", &name, &text.to_string()]);
                write(&["GET", &name]);
                write(&["EXEC"]);
            }
        }
        self.asked.push(Asked { client, key, ask, text, replies: Vec::new() });
        self.open.entry((client, key)).or_default().push_back(number);
        let slot = Slot::of(name.as_bytes());
        // Both kinds are under way beside each other.
        let node = self.router.map().primary(slot).filter(|_| number % 4 > 0);
        if let Some((node, direct)) = node.and_then(|node| Some((node, self.router.begin_direct(node, slot)?))) {
            let port = self.router.map().endpoint(node).port;
            let replies = self.cluster.receive(port, &wire);
            let sent = Sent::Direct { direct, number, client, commands: wire };
            self.pipes.entry(node).or_default().push_back((sent, replies));
        } else {
            let step = Step::new(number, client as u64, slot, wire, self.now_ms);
            if let Some((node, step)) = self.router.begin(step, self.now_ms) {
                self.send(node, step);
            }
        }
        self.drain();
    }

    fn send(&mut self, node: Node, mut step: Box<Step<usize>>) {
        let mut wire = Vec::new();
        let replies = step.write(&mut wire);
        let port = self.router.map().endpoint(node).port;
        let commands = self.cluster.receive(port, &wire);
        assert!(replies.is_none_or(|replies| replies == commands), "as many replies as are said");
        self.pipes.entry(node).or_default().push_back((Sent::Whole(step), commands));
    }

    fn drain(&mut self) {
        while let Some(order) = self.router.poll(self.now_ms) {
            match order {
                Order::Send(node, step) => self.send(node, step),
                Order::Answer(number, replies) => self.answer(number, replies),
            }
        }
    }

    /// A node carries out one command, and its reply comes.
    fn carry_out(&mut self, port: u16) {
        let Some(reply) = self.cluster.carry_out(port) else { return };
        let node = self.router.map_mut().node(&Cluster::endpoint(port));
        let pipe = self.pipes.get_mut(&node).unwrap();
        let (mut sent, left) = pipe.pop_front().unwrap();
        let number = sent.number();
        let mut is_askers = match &mut sent {
            Sent::Direct { direct, .. } => direct.handle_reply(&reply),
            Sent::Whole(_) => false,
        };
        if !is_askers {
            let mut step = sent.whole(self.now_ms);
            is_askers = step.handle_reply(&reply) == Landed::HandOut;
            sent = Sent::Whole(step);
        }
        if is_askers {
            self.asked[number].replies.push(reply);
        }
        match sent {
            sent if left > 1 => pipe.push_front((sent, left - 1)),
            Sent::Direct { direct, .. } if self.router.finish_direct(&direct) => self.answer(number, Vec::new()),
            sent => {
                if let Some((number, replies)) = self.router.finish(node, sent.whole(self.now_ms), self.now_ms) {
                    self.answer(number, replies);
                }
            }
        }
        self.drain();
    }

    /// A connection breaks, with what the node has not carried out and what it has carried out without a reply.
    fn cut(&mut self, port: u16, carried_out: usize) {
        (0..carried_out).for_each(|_| _ = self.cluster.carry_out(port));
        self.cluster.forget_connection(port);
        let node = self.router.map_mut().node(&Cluster::endpoint(port));
        for (sent, _) in std::mem::take(self.pipes.entry(node).or_default()) {
            if let Some((number, replies)) = self.router.lose(node, sent.whole(self.now_ms), "lost", self.now_ms) {
                self.answer(number, replies);
            }
        }
        self.drain();
    }

    fn learn(&mut self, port: u16) {
        let asked = self.router.map().ask();
        let topology = self.cluster.topology_of(port);
        self.router.adopt(&topology, asked);
        self.drain();
    }

    /// Takes an answer. Those to one key are judged in the order in which its client asked.
    fn answer(&mut self, number: usize, rest: Vec<Vec<u8>>) {
        assert!(self.done.insert(number), "answered twice: {number}");
        let asked = &mut self.asked[number];
        asked.replies.extend(rest);
        let expected = if matches!(asked.ask, Ask::AppendAndGet) { 4 } else { 1 };
        assert_eq!(asked.replies.len(), expected, "{number} has each of its replies");
        self.under_way[asked.client] -= 1;
        let key = (asked.client, asked.key);
        while let Some(number) = self.open.entry(key).or_default().pop_front_if(|number| self.done.contains(number)) {
            self.judge(number);
        }
    }

    /// Checks an answer against what the key may hold.
    fn judge(&mut self, number: usize) {
        let Asked { client, key, ask, text, replies } = &self.asked[number];
        let reply = String::from_utf8(replies.last().unwrap().clone()).unwrap();
        let leaked = ["-MOVED", "-ASK"].iter().find(|code| reply.starts_with(**code));
        assert_eq!(leaked, None, "no client learns of nodes");
        let may_hold = self.may_hold.get_mut(&(*client, *key)).unwrap();
        let appended = |held: &String| format!("{held}{text}");
        if reply.starts_with('-') {
            self.errors += 1;
            // Lost, it may have been carried out; else it was not.
            if reply.contains("lost") && !matches!(ask, Ask::Get) {
                let more: Vec<_> = may_hold.iter().map(appended).collect();
                may_hold.extend(more);
            }
            return;
        }
        match ask {
            Ask::Get => may_hold.retain(|held| reply == bulk(held)),
            Ask::Append => {
                let said = |held: &String| reply == format!(":{}\r\n", held.len());
                *may_hold = may_hold.iter().map(appended).filter(said).collect();
            }
            Ask::AppendAndGet => {
                let said = |held: &String| reply == format!("*2\r\n:{}\r\n{}", held.len(), bulk(held));
                *may_hold = may_hold.iter().map(appended).filter(said).collect();
            }
        }
        assert!(!may_hold.is_empty(), "{number}, {ask:?}: {reply:?} fits no order of what the client asked");
    }
}

fn bulk(text: &str) -> String {
    if text.is_empty() { "$-1\r\n".to_owned() } else { format!("${}\r\n{text}\r\n", text.len()) }
}

#[derive(Clone, Debug)]
enum Event {
    Ask(usize, usize, u8),
    CarryOut(u16),
    Move(Move),
    Cut(u16, usize),
    Learn(u16),
    Load(u16, bool),
    Pass(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let port = || 1_u16..4;
    let event = prop_oneof![
        6 => (0..CLIENTS, 0..KEYS.len(), 0_u8..3).prop_map(|(client, key, ask)| Event::Ask(client, key, ask)),
        8 => port().prop_map(Event::CarryOut),
        2 => (0_usize..2, port()).prop_map(|(slot, to)| Event::Move(Move::Begin { slot, to })),
        3 => (0_usize..2, any::<u8>()).prop_map(|(slot, which)| Event::Move(Move::OneKey { slot, which })),
        1 => (0_usize..2).prop_map(|slot| Event::Move(Move::End { slot })),
        1 => (0_usize..2, port()).prop_map(|(slot, to)| Event::Move(Move::AtOnce { slot, to })),
        1 => (port(), 0_usize..3).prop_map(|(port, carried_out)| Event::Cut(port, carried_out)),
        1 => port().prop_map(Event::Learn),
        1 => (port(), any::<bool>()).prop_map(|(port, loads)| Event::Load(port, loads)),
        2 => (1_i64..60).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn clients_get_what_one_server_would_have_answered(events in events()) {
        let mut world = World::new();
        for event in events {
            match event {
                Event::Ask(client, key, ask) => {
                    world.ask(client, key, [Ask::Get, Ask::Append, Ask::AppendAndGet][usize::from(ask)]);
                }
                Event::CarryOut(port) => world.carry_out(port),
                // A step that was told to ask elsewhere, and comes there only when the slot has come back and moves
                // once more, is carried out where its key isn't: no client can tell.
                Event::Move(Move::Begin { .. }) if world.router.held() > 0 || world.cluster.is_asked() => {}
                Event::Move(step) => world.cluster.move_slot(step),
                Event::Cut(port, carried_out) => world.cut(port, carried_out),
                Event::Learn(port) => world.learn(port),
                Event::Load(port, loads) => world.cluster.load(port, loads),
                Event::Pass(ms) => {
                    world.now_ms += ms;
                    world.drain();
                }
            }
        }
        // All that was asked is answered once nothing stands against it.
        (1..4).for_each(|port| world.cluster.load(port, false));
        for _ in 0..1000 {
            (1..4).for_each(|port| world.carry_out(port));
            world.now_ms += 1;
            world.drain();
        }
        prop_assert_eq!(world.done.len(), world.asked.len(), "somebody waits for ever");
        for client in 0..CLIENTS {
            for key in 0..KEYS.len() {
                let held = world.cluster.held(&World::name(client, key));
                prop_assert!(world.may_hold[&(client, key)].contains(&held), "{client}, {key}: {held:?}");
            }
        }
    }
}

/// Without mishaps of nodes and connections nobody is told an error, however slots move.
#[test]
fn slots_that_move_cost_nobody_an_error() {
    let mut world = World::new();
    for round in 0..2000_usize {
        world.ask(round % CLIENTS, round % KEYS.len(), [Ask::Get, Ask::Append, Ask::AppendAndGet][round % 7 % 3]);
        let slot = round % 2;
        match round % 23 {
            3 => world.cluster.move_slot(Move::Begin { slot, to: u16::try_from(round % 3).unwrap() + 1 }),
            5 | 9 | 11 | 17 => {
                world.cluster.move_slot(Move::OneKey { slot, which: u8::try_from(round % 251).unwrap() });
            }
            19 => world.cluster.move_slot(Move::End { slot }),
            21 => world.learn(u16::try_from(round % 3).unwrap() + 1),
            _ => {}
        }
        (1..4).for_each(|port| world.carry_out(port));
        world.now_ms += 1;
        world.drain();
    }
    assert!(world.done.len() > 1000 && world.errors == 0, "{} errors of {}", world.errors, world.done.len());
}
