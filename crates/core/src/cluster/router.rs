//! Where each step goes in a cluster, and what becomes of those that nodes won't carry out.
//!
//! ```text
//! step ──begin──▶ Send to the slot's node ──replies──▶ finish ──▶ the asker's replies
//!                   ▲                                   │
//!                   └───────── poll ◀── wait ◀── led elsewhere, or later
//! ```
//! Whoever drives it has one connection to each node for such steps: it writes a step's commands there, hands each reply
//! to the step, and finishes the step with its last one. What is under way of a slot is at one node at a time. No step is
//! carried out twice. One that a connection took with it
//! is sent again where it only reads, and else is answered by an error that says that it may have been carried out.

use std::collections::{BTreeSet, VecDeque};

use super::{Adoption, AskedAt, Direct, Flight, Landed, Node, Outcome, Redirect, Redirects, SlotMap, Topology, Turns};
use crate::slot::Slot;

/// How long nodes are tried.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    /// A step that no node carries out for so long is answered by an error, in milliseconds.
    pub give_up_after_ms: i64,
    /// A slot that is not served is tried again after so long, in milliseconds.
    pub pause_ms: i64,
}

/// One step of a conversation, and whose it is.
#[derive(Debug)]
pub struct Step<W> {
    /// Whose replies these are.
    pub whose: W,
    client: u64,
    flight: Flight,
    /// Where it was led for once.
    ask: Option<Node>,
    /// When it was first to be sent.
    since_ms: i64,
    /// How often it was led elsewhere.
    led: u32,
    /// What stood against it last.
    cause: Vec<u8>,
    /// Its asker has got a part of its reply.
    flows: bool,
}

impl<W> Step<W> {
    /// A step of `client`: these commands, all of this slot.
    pub fn new(whose: W, client: u64, slot: Slot, commands: Vec<u8>, now_ms: i64) -> Box<Self> {
        Self::of(whose, client, Direct::new(slot), commands, now_ms)
    }

    /// The step that is under way since [`Router::begin_direct`]: these are the commands that were written.
    pub fn of(whose: W, client: u64, direct: Direct, commands: Vec<u8>, now_ms: i64) -> Box<Self> {
        let flight = direct.into_flight(commands);
        Box::new(Self { whose, client, flight, ask: None, since_ms: now_ms, led: 0, cause: Vec::new(), flows: false })
    }

    /// The slot of its commands.
    pub fn slot(&self) -> Slot {
        self.flight.slot()
    }

    /// Whether its next reply is handed out whatever it says, so that a long one may be as it comes: no reply of this
    /// step was held back, and what begins like this one is no error.
    pub fn may_flow(&self, reply: &[u8]) -> bool {
        !self.flight.is_led() && !reply.starts_with(b"-")
    }

    /// From now on a part of its last reply is with its asker: it is not sent again whatever happens, not even where it only
    /// reads.
    pub fn begin_flow(&mut self) {
        self.flows = true;
    }

    /// Whether [`Self::begin_flow`] was said.
    pub fn flows(&self) -> bool {
        self.flows
    }

    /// Writes what is to be sent now; with the number of replies that will come, or none for the first time, when there
    /// are as many as commands.
    pub fn write(&mut self, wire: &mut Vec<u8>) -> Option<u32> {
        if self.led == 0 {
            wire.extend_from_slice(self.flight.commands());
            return None;
        }
        Some(self.flight.send_again(self.ask.is_some(), wire))
    }

    /// Takes a reply to what was written last.
    #[inline]
    pub fn handle_reply(&mut self, reply: &[u8]) -> Landed {
        self.flight.handle_reply(reply)
    }

    /// Whether nothing changes by it.
    pub fn only_reads(&self) -> bool {
        self.flight.only_reads()
    }

    /// Whether it may write at a node that doesn't have its slot yet.
    pub fn writes_ahead(&self) -> bool {
        self.ask.is_some() && !self.only_reads()
    }

    /// How it goes on, once the last reply has come from a node that is none of the router's: a replica.
    pub fn outcome(&mut self) -> Outcome {
        self.flight.outcome()
    }

    /// The error for a step that no node has carried out.
    fn last_word(&self) -> Vec<u8> {
        let slot = self.flight.slot();
        match Redirect::read(&self.cause) {
            Some(Redirect::Moved(..) | Redirect::Ask(..)) => {
                format!("-CLUSTERDOWN keyfold: the nodes say of each other that they have slot {slot}\r\n").into_bytes()
            }
            _ if self.cause.is_empty() => format!("-CLUSTERDOWN keyfold: no node has slot {slot}\r\n").into_bytes(),
            _ => self.cause.clone(),
        }
    }

    /// Whether `other`, which was sent before it by the same client, would have to be carried out before it.
    fn overtakes(&self, other: &Self) -> bool {
        self.client == other.client
            && !(self.flight.only_reads() && other.flight.only_reads())
            && !self.flight.keys().is_disjoint(&other.flight.keys())
    }
}

/// What is to be done.
#[derive(Debug)]
pub enum Order<W> {
    /// Write the step to the connection to this node.
    Send(Node, Box<Step<W>>),
    /// Hand these replies to its asker: they are the last ones.
    Answer(W, Vec<Vec<u8>>),
}

/// What is to be done with a step on a connection of its own.
#[derive(Debug)]
pub enum Alone<W> {
    /// Write it to a connection to this node.
    Send(Node, Box<Step<W>>),
    /// Say at this time, in milliseconds, by [`Router::go_on_alone`] that it may go on.
    Wait(Box<Step<W>>, i64),
    /// Hand these replies to its asker: they are the last ones.
    Answer(W, Vec<Vec<u8>>),
}

/// The answer to a step that can't be carried out any more.
const OVERTAKEN: &[u8] =
    b"-TRYAGAIN keyfold: not carried out: while its slot moved, a later command of this client went first\r\n";

/// Where each step goes.
#[derive(Debug)]
pub struct Router<W> {
    map: SlotMap,
    turns: Turns<Box<Step<W>>>,
    orders: VecDeque<Order<W>>,
    tries: Tries,
    wants_map: bool,
    redirects: Redirects,
    /// Nodes that steps which may write were led to though the map doesn't say so, and the slots that were on their way there.
    led_ahead: BTreeSet<(Node, Slot)>,
}

impl<W> Router<W> {
    /// A router that goes by this map.
    pub fn new(map: SlotMap, tries: Tries) -> Self {
        Self {
            map,
            turns: Turns::default(),
            orders: VecDeque::new(),
            tries,
            wants_map: false,
            redirects: Redirects::default(),
            led_ahead: BTreeSet::new(),
        }
    }

    /// How often nodes led steps elsewhere.
    pub fn redirects(&self) -> Redirects {
        self.redirects
    }

    /// Nodes that may have of a slot what was written, though another has it by the map: it is on its way there.
    pub fn led_ahead(&self) -> impl Iterator<Item = (Node, Slot)> {
        self.led_ahead.iter().copied()
    }

    /// The slot isn't on its way to this node any more.
    pub fn forget_led_ahead(&mut self, node: Node, slot: Slot) {
        self.led_ahead.remove(&(node, slot));
    }

    /// Which node has which slot.
    pub fn map(&self) -> &SlotMap {
        &self.map
    }

    /// The same, to learn of nodes.
    pub fn map_mut(&mut self) -> &mut SlotMap {
        &mut self.map
    }

    /// Whether something suggests that the map is not right any more. Asked once, it is answered.
    pub fn take_wish_for_map(&mut self) -> bool {
        std::mem::take(&mut self.wants_map)
    }

    /// Takes a node's word about the cluster. What is under way of slots that are another node's settles before more of
    /// theirs is sent.
    pub fn adopt(&mut self, topology: &Topology, asked: AskedAt) -> Adoption {
        let before: Vec<_> = Slot::all().map(|slot| self.map.primary(slot)).collect();
        let adoption = self.map.adopt(topology, asked);
        if adoption == (Adoption::Adopted { changed: true }) {
            for (slot, before) in Slot::all().zip(before) {
                if self.map.primary(slot) != before {
                    self.turns.hold(slot);
                    self.note_arrived(slot);
                }
            }
        }
        adoption
    }

    /// The slot is where it was on its way to, perhaps: what went ahead is by now where the map says.
    fn note_arrived(&mut self, slot: Slot) {
        if let Some(node) = self.map.primary(slot) {
            self.led_ahead.remove(&(node, slot));
        }
    }

    /// Begins a step: the node to write it to, or none where it waits and [`Self::poll`] will bring it.
    pub fn begin(&mut self, step: Box<Step<W>>, now_ms: i64) -> Option<(Node, Box<Step<W>>)> {
        let slot = step.flight.slot();
        if let Some(node) = self.goes_at_once(slot) {
            self.turns.note_sent(slot);
            return Some((node, step));
        }
        let is_unserved = self.turns.may_go(slot);
        self.wants_map |= is_unserved;
        self.turns.wait(slot, step, if is_unserved { now_ms + self.tries.pause_ms } else { now_ms });
        None
    }

    /// Where a step of this slot may be sent now; none where it has to wait.
    #[inline]
    fn goes_at_once(&self, slot: Slot) -> Option<Node> {
        self.map.primary(slot).filter(|_| self.turns.may_go(slot))
    }

    /// Begins a step on the connection to `node`, where it would go there at once, without having its commands: nearly
    /// every step is answered without being led anywhere. Where one is, or its connection is lost, it is to be [made
    /// whole](Step::of). None where the step is to [begin](Self::begin) as others do.
    #[inline]
    pub fn begin_direct(&mut self, node: Node, slot: Slot) -> Option<Direct> {
        let goes_there = self.goes_at_once(slot) == Some(node);
        goes_there.then(|| {
            self.turns.note_sent(slot);
            Direct::new(slot)
        })
    }

    /// The last reply to such a step has come. Whether that is all: where steps wait, it may concern them what this one
    /// was, and it is to be made whole and [finished](Self::finish).
    #[inline]
    pub fn finish_direct(&mut self, direct: &Direct) -> bool {
        let is_all = self.held() == 0;
        if is_all {
            self.turns.note_settled(direct.slot(), |_| false);
        }
        is_all
    }

    /// Begins a step that a replica was sent: what it has not answered, or not carried out, is sent to the slot's node.
    pub fn bring_back(&mut self, mut step: Box<Step<W>>, now_ms: i64) -> Option<(Node, Box<Step<W>>)> {
        step.flight.lose();
        (step.led, step.since_ms) = (step.led.max(1), now_ms);
        self.begin(step, now_ms)
    }

    /// The last reply to what was written of a step has come from `node`: whose the step is and the replies that were
    /// kept, or none where it goes on.
    pub fn finish(&mut self, node: Node, mut step: Box<Step<W>>, now_ms: i64) -> Option<(W, Vec<Vec<u8>>)> {
        match step.flight.outcome() {
            Outcome::Answered(replies) => {
                self.turns.note_settled(step.flight.slot(), |led| step.overtakes(led));
                Some((step.whose, replies))
            }
            Outcome::Led(cause) => {
                self.note_led(node, step, cause, now_ms);
                None
            }
        }
    }

    fn note_led(&mut self, node: Node, mut step: Box<Step<W>>, cause: Vec<u8>, now_ms: i64) {
        let slot = step.flight.slot();
        let until = self.lead(node, &mut step, cause, now_ms);
        if step.flight.slot() != slot {
            // It goes among the steps of its own slot.
            self.turns.note_settled(slot, |_| false);
            self.turns.wait(step.flight.slot(), step, until);
            return;
        }
        self.turns.note_led(step.flight.slot(), step, until);
    }

    /// Notes where `node` leads a step; not before which time it is to go there.
    fn lead(&mut self, node: Node, step: &mut Step<W>, cause: Vec<u8>, now_ms: i64) -> i64 {
        step.ask = None;
        if step.led == 0 {
            // A command that blocks may have been at its node for long.
            step.since_ms = now_ms;
        }
        let later = now_ms + self.tries.pause_ms;
        // Nodes that lead to each other are not asked without a pause.
        let soon = if step.led < 2 { now_ms } else { later };
        let redirect = Redirect::read(&cause);
        redirect.iter().for_each(|redirect| self.redirects.note(redirect));
        let until = match redirect {
            // A script's word leads to no node that others don't name: it would be told who keyfold is.
            Some(Redirect::Moved(_, to) | Redirect::Ask(_, to))
                if !self.map.knows(to, node) && step.flight.runs_scripts() =>
            {
                self.wants_map = true;
                later
            }
            Some(Redirect::Moved(moved, to)) => {
                let before = self.map.primary(moved);
                if Some(self.map.note_moved(moved, to, node)) != before {
                    // What is under way of the slot at its node before settles first.
                    self.turns.hold(moved);
                    self.note_arrived(moved);
                }
                // The keys of commands that nobody here knows are known there.
                step.flight.place(moved);
                self.wants_map = true;
                soon
            }
            Some(Redirect::Ask(slot, to)) => {
                step.flight.place(slot);
                let node = self.map.led_to(to, node);
                if !step.only_reads() && self.map.primary(slot) != Some(node) {
                    self.led_ahead.insert((node, slot));
                }
                step.ask = Some(node);
                soon
            }
            Some(Redirect::TryAgain) => later,
            _ => {
                self.wants_map = true;
                later
            }
        };
        step.led += 1;
        // The node that is asked says why it isn't carried out, and who leads there each time doesn't.
        let says_why = Redirect::read(&step.cause) == Some(Redirect::TryAgain);
        if !(says_why && step.ask.is_some()) {
            step.cause = cause;
        }
        until
    }

    /// The last reply has come, from `node`, to what was written of a step on a connection that its client has to itself:
    /// nothing else of the client's is under way, so it waits for nobody's turn.
    pub fn finish_alone(&mut self, node: Node, mut step: Box<Step<W>>, now_ms: i64) -> Alone<W> {
        match step.flight.outcome() {
            Outcome::Answered(replies) => Alone::Answer(step.whose, replies),
            Outcome::Led(cause) => {
                let until_ms = self.lead(node, &mut step, cause, now_ms);
                Alone::Wait(step, until_ms)
            }
        }
    }

    /// Such a step could not be sent to its node, for this reason, which is its error where it stays so.
    pub fn give_back_alone(&mut self, node: Node, mut step: Box<Step<W>>, reason: &str, now_ms: i64) -> Alone<W> {
        step.flight.lose();
        let error = format!("-CLUSTERDOWN keyfold: {reason}\r\n").into_bytes();
        let until_ms = self.lead(node, &mut step, error, now_ms);
        Alone::Wait(step, until_ms)
    }

    /// Where such a step goes at this time.
    pub fn go_on_alone(&mut self, mut step: Box<Step<W>>, now_ms: i64) -> Alone<W> {
        let is_over = now_ms - step.since_ms > self.tries.give_up_after_ms;
        match step.ask.or_else(|| self.map.primary(step.flight.slot())) {
            Some(node) if !is_over => Alone::Send(node, step),
            _ if is_over => {
                let error = step.last_word();
                step.flight.lose();
                Alone::Answer(step.whose, step.flight.give_up(&error))
            }
            _ => {
                self.wants_map = true;
                Alone::Wait(step, now_ms + self.tries.pause_ms)
            }
        }
    }

    /// The connection to `node` took a step with it, for this reason: whose it is and the error that answers it, or
    /// none where it will be sent again. Those of one connection come in the order in which they were sent.
    pub fn lose(&mut self, node: Node, mut step: Box<Step<W>>, reason: &str, now_ms: i64) -> Option<(W, Vec<Vec<u8>>)> {
        self.wants_map = true;
        let error = format!("-ERR keyfold: {reason}\r\n").into_bytes();
        step.flight.lose();
        if step.flight.only_reads() && !step.flows {
            self.note_led(node, step, error, now_ms);
            return None;
        }
        self.turns.note_settled(step.flight.slot(), |led| step.overtakes(led));
        Some((step.whose, step.flight.give_up(&error)))
    }

    /// A step could not be sent to its node, for this reason, which is its error where it stays so: it is tried again.
    pub fn give_back(&mut self, node: Node, mut step: Box<Step<W>>, reason: &str, now_ms: i64) {
        self.wants_map = true;
        step.flight.lose();
        self.note_led(node, step, format!("-CLUSTERDOWN keyfold: {reason}\r\n").into_bytes(), now_ms);
    }

    /// What is to be done next, at this time.
    pub fn poll(&mut self, now_ms: i64) -> Option<Order<W>> {
        while self.orders.is_empty()
            && let Some((slot, round)) = self.turns.poll(now_ms)
        {
            for step in round.overtaken {
                self.answer(step, OVERTAKEN);
            }
            self.go_on(slot, round.again.into_iter().chain(round.waiting), now_ms);
        }
        self.orders.pop_front()
    }

    /// Sends steps of a slot of which nothing is under way, up to the first that goes to another node than those before
    /// it: what is under way of a slot is at one node, so that it keeps its order.
    fn go_on(&mut self, slot: Slot, steps: impl Iterator<Item = Box<Step<W>>>, now_ms: i64) {
        let mut goes_to = None;
        let mut steps = steps.peekable();
        while let Some(step) = steps.next() {
            let is_over = now_ms - step.since_ms > self.tries.give_up_after_ms;
            match step.ask.or_else(|| self.map.primary(slot)) {
                Some(node) if goes_to.is_some_and(|to| to != node) => {
                    std::iter::once(step).chain(steps).for_each(|step| self.turns.wait(slot, step, now_ms));
                    break;
                }
                // What only waited its turn is tried once, however long that was.
                Some(node) if !is_over || step.led == 0 => {
                    goes_to = Some(node);
                    self.turns.note_sent(slot);
                    self.orders.push_back(Order::Send(node, step));
                }
                _ if is_over => {
                    let error = step.last_word();
                    self.answer(step, &error);
                }
                _ => {
                    self.wants_map = true;
                    self.turns.wait(slot, step, now_ms + self.tries.pause_ms);
                }
            }
        }
        // Those behind go to the slot's own node, and could be led elsewhere before these are lost.
        if goes_to.is_some() && goes_to != self.map.primary(slot) {
            self.turns.hold(slot);
        }
    }

    #[expect(clippy::boxed_local, reason = "it is boxed for its whole life")]
    fn answer(&mut self, mut step: Box<Step<W>>, error: &[u8]) {
        step.flight.lose();
        self.orders.push_back(Order::Answer(step.whose, step.flight.give_up(error)));
    }

    /// How many slots have steps that wait.
    pub fn held(&self) -> usize {
        self.turns.held()
    }

    /// When [`Self::poll`] may have something though nothing else happens.
    pub fn next_ms(&self) -> Option<i64> {
        self.turns.next_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{AddressMap, Endpoint, Range};

    fn router() -> Router<()> {
        let last = |number| Slot::new(number).unwrap();
        let at = |port| Endpoint { host: "a".to_owned(), port };
        let range = |first, to, port| Range { first, last: to, primary: at(port), replicas: Vec::new() };
        let ranges = vec![range(Slot::FIRST, last(99), 1), range(last(100), last(16_383), 2)];
        let mut router =
            Router::new(SlotMap::new(AddressMap::default()), Tries { give_up_after_ms: 1000, pause_ms: 10 });
        let asked = router.map().ask();
        router.adopt(&Topology { ranges, epoch: 1, is_ok: true, named: [].into() }, asked);
        router
    }

    #[test]
    fn a_node_knows_better_which_slot_a_command_is_of() {
        let mut router = router();
        let step = Step::new((), 1, Slot::FIRST, b"*2\r\n$4\r\nNOPE\r\n$1\r\nx\r\n".to_vec(), 0);
        let (node, mut step) = router.begin(step, 0).unwrap();
        step.write(&mut Vec::new());
        step.handle_reply(b"-MOVED 16287 a:2\r\n");
        assert!(router.finish(node, step, 1).is_none());
        let Some(Order::Send(other, mut step)) = router.poll(1) else { panic!("it goes on") };
        assert_eq!((router.map().endpoint(other).port, step.slot().number()), (2, 16_287));
        assert_eq!(step.write(&mut Vec::new()), Some(1));
        step.handle_reply(b"+OK\r\n");
        assert_eq!(router.finish(other, step, 2), Some(((), vec![b"+OK\r\n".to_vec()])));
        assert_eq!((router.held(), router.map().primary(Slot::FIRST)), (0, Some(node)));
    }

    #[test]
    fn a_script_leads_to_no_node_that_is_not_known() {
        let mut router = router();
        let step = Step::new((), 1, Slot::FIRST, b"*3\r\n$4\r\nEVAL\r\n$1\r\nx\r\n$1\r\n0\r\n".to_vec(), 0);
        let (node, mut step) = router.begin(step, 0).unwrap();
        for (reply, port) in [("-MOVED 0 evil:9\r\n", 1), ("-ASK 0 evil:9\r\n", 1), ("-MOVED 0 a:2\r\n", 2)] {
            step.write(&mut Vec::new());
            step.handle_reply(reply.as_bytes());
            assert!(router.finish(node, step, 1).is_none());
            assert!(router.take_wish_for_map());
            let Some(Order::Send(at, next)) = router.poll(50) else { panic!("it goes on") };
            assert_eq!(router.map().endpoint(at).port, port, "{reply}");
            step = next;
        }
    }

    #[test]
    fn a_read_is_sent_again_unless_a_part_of_its_answer_is_out() {
        let mut router = router();
        for flows in [false, true] {
            let step = Step::new((), 1, Slot::FIRST, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n".to_vec(), 0);
            let (node, mut step) = router.begin(step, 0).unwrap();
            if flows {
                step.begin_flow();
            }
            assert_eq!(router.lose(node, step, "it is away", 5).is_some(), flows);
            let again = router.poll(20);
            assert_eq!(matches!(again, Some(Order::Send(..))), !flows);
            if let Some(Order::Send(node, step)) = again {
                assert!(router.finish(node, step, 21).is_some());
            }
        }
        assert_eq!(router.held(), 0);
    }

    fn get(client: u64, now_ms: i64) -> Box<Step<()>> {
        Step::new((), client, Slot::FIRST, b"*2\r\n$3\r\nSET\r\n$1\r\na\r\n".to_vec(), now_ms)
    }

    /// What one client learns of a slot on a connection of its own is no reason for another's commands to overtake what is under way.
    #[test]
    fn a_slot_that_moves_by_a_word_to_one_alone_is_held_until_it_settles() {
        let mut router = router();
        let (node, mut first) = router.begin(get(1, 0), 0).unwrap();
        let (mut alone, moved) = (get(2, 0), b"-MOVED 0 a:2\r\n");
        alone.write(&mut Vec::new());
        alone.handle_reply(moved);
        assert!(matches!(router.finish_alone(node, alone, 1), Alone::Wait(..)));
        assert!(router.begin(get(1, 2), 2).is_none(), "the first is still at the old node");
        first.write(&mut Vec::new());
        first.handle_reply(moved);
        assert!(router.finish(node, first, 3).is_none());
        let orders: Vec<_> = std::iter::from_fn(|| router.poll(20)).collect();
        assert_eq!(orders.len(), 2);
        assert!(orders.iter().all(|order| matches!(order, Order::Send(to, _) if *to != node)));
    }

    /// One that blocks may be at its node for long before that leads it elsewhere.
    #[test]
    fn time_to_try_begins_with_the_first_word_against_it() {
        let mut router = router();
        let mut step = get(1, 0);
        step.write(&mut Vec::new());
        step.handle_reply(b"-MOVED 0 a:2\r\n");
        let node = router.map().primary(Slot::FIRST).unwrap();
        let Alone::Wait(step, until) = router.finish_alone(node, step, 60_000) else { panic!("it goes on") };
        assert!(matches!(router.go_on_alone(step, until), Alone::Send(to, _) if to != node));
    }

    #[test]
    fn what_could_not_be_sent_is_tried_again_and_then_given_up() {
        let mut router = router();
        let step = Step::new((), 1, Slot::FIRST, b"*1\r\n$4\r\nPING\r\n".to_vec(), 0);
        let (node, step) = router.begin(step, 0).unwrap();
        router.give_back(node, step, "it is away", 5);
        let Some(Order::Send(again, step)) = router.poll(15) else { panic!("it is tried again") };
        assert_eq!(again, node);
        router.give_back(node, step, "it is away", 900);
        let Some(Order::Send(_, step)) = router.poll(950) else { panic!("it is tried again") };
        router.give_back(node, step, "it is away", 1100);
        let Some(Order::Answer((), replies)) = router.poll(1200) else { panic!("it is given up") };
        assert_eq!(replies, [b"-CLUSTERDOWN keyfold: it is away\r\n".to_vec()]);
    }
}
