//! What each action does to the world.

use keyfold_core::admin::home;
use keyfold_core::admin::witness::key;
use keyfold_core::change::witness::{self, Tending};
use keyfold_core::change::{Act, Answer, Connection, Coordinator, Course, Found, Look, Stance};
use keyfold_core::layout::Epoch;
use keyfold_core::resp::write_bulk;

use crate::server::{number_of, text_of};
use crate::world::{Action, Bounds, Change, Fault, Flight, Layout, Line, Process, World, in_force, number, witnesses};

/// What a server says that holds nothing: to who asks again before acting it is all the same what it saw before.
fn nothing_seen() -> [Vec<u8>; 3] {
    [&b"*2\r\n$1\r\n0\r\n$1\r\n0\r\n"[..], b"$-1\r\n", b"*3\r\n$-1\r\n$-1\r\n$-1\r\n"].map(<[u8]>::to_vec)
}

impl Process {
    fn forget(&mut self) {
        (self.holding, self.serving_next) = (false, None);
        if !self.member.must_put_back() {
            self.member.see(&nothing_seen(), |_| Found::Unreadable).expect("a reply that can be read");
        }
    }

    fn close(&mut self, shard: usize) {
        self.lines[shard] = Line::Closed;
        self.drop_look();
    }

    /// A look that nobody waits for is none.
    fn drop_look(&mut self) {
        if !self.lines.contains(&Line::Looking) {
            (self.look, self.heard) = (None, [false; 3]);
        }
    }

    /// Whoever serves another layout looks anew.
    fn look_anew(&mut self) {
        (self.look, self.heard) = (None, [false; 3]);
        self.lines.iter_mut().filter(|line| **line == Line::Looking).for_each(|line| *line = Line::Named);
    }
}

impl Change {
    fn forget(&mut self) {
        self.done = 0;
        self.coordinator.see(&nothing_seen()).expect("a reply that can be read");
    }
}

impl World {
    /// The world after an action.
    pub(crate) fn act(&mut self, action: &Action, bounds: &Bounds) {
        let fault = bounds.fault;
        match *action {
            Action::Pass(tick) => {
                self.left.ticks &= !(1 << tick);
                self.shards.iter_mut().for_each(|shard| shard.pass(bounds.ticks_ms[tick]));
            }
            Action::Witness(index, which) => {
                self.left.tends -= 1;
                let (slot, shard) = witnesses()[which];
                self.processes[index].witnessed[which] = Some(self.shards[shard].witnesses.get(&key(slot)).cloned());
            }
            Action::Look(index) => self.look(index, fault),
            Action::Serve(index) => self.serve(index),
            Action::Name(index, shard) => {
                let process = &mut self.processes[index];
                let late = fault == Some(Fault::NamedLate) && process.look.is_some();
                process.lines[shard] = if late { Line::Looking } else { Line::Named };
            }
            Action::BeginLook(index) => {
                self.left.looks[index] -= 1;
                let process = &mut self.processes[index];
                (process.look, process.heard) = (Some(Look::begin()), [false; 3]);
                process.lines.iter_mut().filter(|line| **line == Line::Named).for_each(|line| *line = Line::Looking);
            }
            Action::Hear(index, which) => self.hear(index, which, fault),
            Action::Connect(index, shard) => {
                self.processes[index].lines[shard] = Line::Used;
                self.processes[index].drop_look();
            }
            Action::Begin(member, shard) => {
                let layout =
                    self.processes[member].member.serving().map(number).expect("the action is there only then");
                self.left.requests[member] -= 1;
                self.flights.push(Flight { member, shard, layout });
                self.flights.sort();
            }
            Action::CarryOut(index) => {
                let Flight { member, shard, layout } = self.flights.remove(index);
                self.data[shard] |= self.layouts[usize::from(layout)].writes;
                self.stop_if_idle(member);
            }
            Action::CarryOutLate(index) => {
                let (shard, wire) = self.late.remove(index);
                self.shards[shard].compare_and_set(&wire, false);
            }
            Action::StartChange => {
                let now = in_force(&self.shards[0].register()).expect("the action is there only then");
                let Layout { epoch, reads, writes, .. } = self.layouts[usize::from(now)].clone();
                let writes = (writes << 1).max(reads.next_power_of_two());
                let next = Layout { epoch: epoch + 1, reads: reads | writes, writes, is_put_back: false };
                self.start_change(bounds, next, &[now]);
            }
            Action::StartPutBack(index) => self.put_back(index, bounds),
            Action::Coordinate => self.coordinate(fault),
            Action::Fail => {
                self.left.failures -= 1;
                self.ask();
                self.withdraw();
            }
            Action::Crash => {
                self.left.failures -= 1;
                self.change = None;
            }
            Action::CrashLate => self.crash_late(),
            Action::Replicate(shard) => {
                self.replicas[shard] = Some(Box::new((self.shards[shard].clone(), self.data[shard])));
            }
            Action::Lose(loss) => {
                self.left.losses &= !(1 << loss);
                self.fail_over(bounds.losses[loss], fault);
            }
        }
    }

    pub(crate) fn look(&mut self, index: usize, fault: Option<Fault>) {
        self.tend(index, fault);
        let mut wire = Vec::new();
        self.processes[index].member.ask(&mut wire);
        let reply = self.shards[0].ask(&wire);
        let found = self.meaning(&self.shards[0].register(), self.processes[index].known);
        let process = &mut self.processes[index];
        process.member.see(&reply, |_| found).expect("a reply that can be read");
        let act = process.member.decide();
        process.holding = act == Act::Stop;
        process.serving_next = None;
        match act {
            Act::Stop => self.stop_if_idle(index),
            Act::Rest => process.forget(),
            Act::Answer(answer) => self.write_answer(index, &answer),
            Act::Serve(layout) => process.serving_next = Some(number(layout)),
        }
    }

    /// What becomes of the witnesses that a member has asked, by what the home says now.
    fn tend(&mut self, index: usize, fault: Option<Fault>) {
        let server = &self.shards[0];
        let home = in_force(&server.register()).map(|number| (text_of(number), self.revision(number).epoch));
        let home = home.as_ref().map(|(text, epoch)| (text.as_slice(), *epoch));
        let announced = server.change.is_some();
        let witnessed = std::mem::take(&mut self.processes[index].witnessed);
        let mut doubt: Option<(Epoch, u8)> = None;
        let was_asked = witnessed.iter().any(Option::is_some);
        for ((slot, shard), held) in witnesses().into_iter().zip(&witnessed) {
            let Some(held) = held.as_ref().map(Option::as_deref) else { continue };
            let tending = witness::tend(held, home, announced, |text| self.epoch_of(text));
            match (tending, home) {
                (Tending::Doubt(..), Some((text, _))) if fault == Some(Fault::Backward) => {
                    self.send_late(shard, |wire| witness::write(slot, held, text, wire));
                }
                (Tending::Write, Some((text, _))) => {
                    self.send_late(shard, |wire| witness::write(slot, held, text, wire));
                }
                (Tending::Doubt(epoch, text), _) => doubt = doubt.max(Some((epoch, number_of(&text)))),
                _ => {}
            }
        }
        if was_asked {
            let process = &mut self.processes[index];
            process.doubt = doubt.map(|(_, number)| number);
            process.member.doubts(doubt.map_or(Epoch(0), |(epoch, _)| epoch));
        }
    }

    fn send_late(&mut self, shard: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut wire = Vec::new();
        write(&mut wire);
        self.late.push((shard, wire));
        self.late.sort();
        self.late.dedup();
    }

    pub(crate) fn serve(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let Some(layout) = process.serving_next.take() else { return };
        let revision = self.revision(layout);
        let process = &mut self.processes[index];
        process.member.serves(revision);
        if process.known != layout {
            process.look_anew();
        }
        process.known = layout;
        process.forget();
    }

    fn stop_if_idle(&mut self, index: usize) {
        let is_busy = self.flights.iter().any(|flight| flight.member == index);
        let process = &mut self.processes[index];
        if process.holding && !is_busy {
            process.member.stopped();
            process.holding = false;
            match process.member.decide() {
                Act::Serve(layout) => process.serving_next = Some(number(layout)),
                _ => process.forget(),
            }
        }
    }

    fn write_answer(&mut self, index: usize, answer: &Answer) {
        let mut wire = Vec::new();
        self.processes[index].member.answer(answer, &mut wire);
        let written = self.shards[0].compare_and_set(&wire, false);
        let process = &mut self.processes[index];
        let reply: &[u8] = if written { b":1\r\n" } else { b":0\r\n" };
        process.member.answered(answer, reply).expect("a reply that can be read");
        if let (Stance::Serving(_), Some(serving)) = (answer.stance, process.member.serving()) {
            process.known = number(serving);
        }
        process.forget();
    }

    fn hear(&mut self, index: usize, which: usize, fault: Option<Fault>) {
        let [one, other] = witnesses();
        let (slot, shard) = [(home(), 0), one, other][which];
        let (mut wire, node) = (Vec::new(), self.nodes[shard]);
        Look::<u8>::ask(slot, &mut wire);
        let replies = self.shards[shard].ask(&wire);
        let process = &mut self.processes[index];
        let serving = process.member.serving().map(|revision| text_of(number(revision)));
        let is_served = |layout: Option<&[u8]>, copy: Option<&[u8]>| layout.or(copy) == serving.as_deref();
        process.heard[which] = true;
        let Some(look) = &mut process.look else { return };
        look.hear(slot, node, &replies[0], is_served);
        if fault == Some(Fault::OneWord) && slot == home() {
            // As if one primary had them all.
            Look::<u8>::slots().skip(1).for_each(|slot| look.hear(slot, node, b"$-1\r\n", is_served));
        }
    }

    fn put_back(&mut self, index: usize, bounds: &Bounds) {
        let Process { known, doubt, .. } = self.processes[index];
        let there = in_force(&self.shards[0].register());
        let all: Vec<u8> = [known].into_iter().chain(there).chain(doubt).collect();
        let layouts = || all.iter().map(|number| &self.layouts[usize::from(*number)]);
        let next = Layout {
            epoch: layouts().map(|layout| layout.epoch).max().unwrap_or_default() + 1,
            reads: layouts().fold(0, |reads, layout| reads | layout.reads),
            writes: self.layouts[usize::from(known)].writes,
            is_put_back: true,
        };
        self.start_change(bounds, next, &all);
    }

    fn start_change(&mut self, bounds: &Bounds, layout: Layout, known: &[u8]) {
        let base = known.iter().map(|number| self.revision(*number)).max().unwrap_or_default();
        self.layouts.push(layout);
        let to = u8::try_from(self.layouts.len() - 1).expect("few layouts");
        let change = u64::from(bounds.changes - self.left.changes) + 1;
        let coordinator = Coordinator::new(change, self.shards[0].register(), &text_of(to), base).in_cluster();
        self.left.changes -= 1;
        self.change = Some(Change { coordinator, done: 0, listed: Vec::new(), is_over: false });
    }

    fn ask(&mut self) {
        let Some(change) = &mut self.change else { return };
        let mut wire = Vec::new();
        change.coordinator.ask(&mut wire);
        change.coordinator.see(&self.shards[0].ask(&wire)).expect("a reply that can be read");
    }

    /// The step that a coordinator sends next, and where to.
    fn next_step(&mut self, fault: Option<Fault>) -> Option<(usize, Vec<u8>)> {
        let Change { coordinator, done, is_over, .. } = self.change.as_mut()?;
        let mut wire = Vec::new();
        let mut shard = 0;
        if *is_over {
            let (slot, at) = witnesses()[*done];
            (_, shard) = (coordinator.release(slot, &mut wire), at);
            return Some((shard, wire)).filter(|(_, wire)| !wire.is_empty());
        }
        match coordinator.decide() {
            Course::Announce(announcement) => coordinator.announce(&announcement, &mut wire),
            Course::Warn if fault != Some(Fault::NoWarning) => {
                let (slot, at) = witnesses()[*done];
                coordinator.warn(slot, &mut wire);
                shard = at;
            }
            Course::Activate => coordinator.activate(&mut wire),
            Course::GiveUp(_) => coordinator.withdraw(&mut wire),
            Course::Warn | Course::List | Course::Close(_) | Course::Wait(_) | Course::Done => {}
        }
        Some((shard, wire)).filter(|(_, wire)| !wire.is_empty())
    }

    fn coordinate(&mut self, fault: Option<Fault>) {
        if self.change.as_ref().is_some_and(|change| change.done == 0 && !change.is_over) {
            self.ask();
        }
        let step = self.next_step(fault);
        // What a witness answers that is told of a change.
        let told = step.as_ref().map(|(shard, _)| *shard).and_then(|shard| {
            let (slot, at) = *witnesses().get(self.change.as_ref()?.done)?;
            (at == shard).then(|| (slot, self.shards[at].witnesses.get(&key(slot)).cloned()))
        });
        let is_done = step.is_some_and(|(shard, wire)| self.shards[shard].compare_and_set(&wire, false));
        let Some(mut change) = self.change.take() else { return };
        let reply: &[u8] = if is_done { b":1\r\n" } else { b":0\r\n" };
        let course = if change.is_over { Course::Done } else { change.coordinator.decide() };
        match course {
            Course::Announce(announcement) => {
                change.coordinator.announced(&announcement, reply).expect("a reply that can be read");
            }
            Course::Warn => {
                if let Some((slot, held)) = told {
                    let mut reply = Vec::new();
                    match held {
                        Some(held) => write_bulk(&mut reply, &held),
                        None => reply.extend(b"$-1\r\n"),
                    }
                    change.coordinator.told(slot, &reply).expect("a reply that can be read");
                }
                change.done += 1;
                if change.done < 2 && fault != Some(Fault::NoWarning) {
                    self.change = Some(change);
                    return;
                }
                change.coordinator.warned();
            }
            Course::List => {
                change.listed.extend(self.list(change.done));
                change.done += 1;
                if change.done < 2 && fault != Some(Fault::OneList) {
                    self.change = Some(change);
                    return;
                }
                change.coordinator.listed(std::mem::take(&mut change.listed));
            }
            Course::Close(connections) => {
                self.close(&connections);
                change.coordinator.closed();
            }
            Course::Activate => {
                change.coordinator.activated(reply).expect("a reply that can be read");
            }
            Course::Done | Course::GiveUp(_) => {
                change.done = if change.is_over { change.done + 1 } else { 0 };
                change.is_over = true;
                self.change = Some(change).filter(|change| change.done < 2);
                return;
            }
            Course::Wait(_) => {}
        }
        change.forget();
        self.change = Some(change);
    }

    /// A coordinator that could not go on lets the members go on, and releases the witnesses then.
    fn withdraw(&mut self) {
        let Some(change) = &mut self.change else { return };
        let mut wire = Vec::new();
        change.coordinator.withdraw(&mut wire);
        (change.done, change.is_over, change.listed) = (0, true, Vec::new());
        self.shards[0].compare_and_set(&wire, false);
    }

    fn crash_late(&mut self) {
        self.left.late -= 1;
        self.left.failures -= 1;
        if self.change.as_ref().is_some_and(|change| change.done == 0 && !change.is_over) {
            self.ask();
        }
        if let Some(step) = self.next_step(None) {
            self.late.push(step);
            self.late.sort();
        }
        self.change = None;
    }

    fn close(&mut self, connections: &[Connection]) {
        for connection in connections {
            let index = usize::try_from(connection.id).expect("a member's number");
            self.processes[index].close(connection.node);
            self.flights.retain(|flight| flight.member != index || flight.shard != connection.node);
            self.stop_if_idle(index);
        }
    }

    /// A replica takes the primary's place, with all that it held at some moment before.
    fn fail_over(&mut self, shard: usize, fault: Option<Fault>) {
        let (server, data) = *self.replicas[shard].take().expect("the action is there only then");
        let now_ms = self.shards[shard].now_ms;
        self.shards[shard] = server;
        let passed = now_ms - self.shards[shard].now_ms;
        self.shards[shard].pass(passed);
        self.data[shard] = data;
        self.nodes[shard] += 2;
        self.flights.retain(|flight| flight.shard != shard);
        self.late.retain(|(at, _)| *at != shard);
        if shard == 0 {
            // What it would decide by is on a connection that is gone.
            self.change = None;
        }
        for index in 0..self.processes.len() {
            if shard == 0 && fault != Some(Fault::KeptSight) {
                self.processes[index].member.looks_anew();
            }
            self.processes[index].close(shard);
            self.stop_if_idle(index);
        }
    }
}
