//! What each action does to the world.

use keyfold_core::change::{Act, Answer, Connection, Coordinator, Course, Found, Stance};

use crate::bounds::{Bounds, Fault, Loss, Place};
use crate::history::CLIENTS;
use crate::keys::{After, Op, Step, alive};
use crate::layouts::{in_force, number};
use crate::server::text_of;
use crate::world::{Action, Change, Connections, Flight, Process, Replica, Who, World};

/// What a server says that holds nothing: to who asks again before acting it is all the same what it saw before.
fn nothing_seen() -> [Vec<u8>; 3] {
    [&b"*2\r\n$1\r\n0\r\n$1\r\n0\r\n"[..], b"$-1\r\n", b"*3\r\n$-1\r\n$-1\r\n$-1\r\n"].map(<[u8]>::to_vec)
}

impl Process {
    fn forget(&mut self) {
        (self.pending, self.holding, self.serving_next) = (false, false, None);
        if !self.keeps_sight() {
            self.member.see(&nothing_seen(), |_| Found::Unreadable).expect("a reply that can be read");
        }
    }

    /// Whether what it saw decides on what it does next, without another look: whether something is lost.
    fn keeps_sight(&self) -> bool {
        self.member.must_put_back()
    }
}

impl Change {
    fn forget(&mut self) {
        self.fresh = false;
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
                self.server.pass(bounds.ticks_ms[tick]);
            }
            Action::Tick => {
                self.now += 1;
                self.history.tick();
                self.places[Place::Plain as usize] = alive(self.places[Place::Plain as usize], self.now);
            }
            Action::Look(index) => self.look(index, fault),
            Action::Write(index) => self.write_answer(index, fault),
            Action::Serve(index) => self.serve(index),
            Action::WriteLate(index) => {
                self.left.late -= 1;
                let wire = self.answer_step(index).1;
                self.late.push(wire);
                self.late.sort();
                self.processes[index].forget();
            }
            Action::GoOn(index) => {
                self.left.go_ons -= 1;
                self.processes[index].member.go_on();
                self.processes[index].forget();
            }
            Action::Name(index) => self.processes[index].connections = Connections::Named,
            Action::Connect(index) => self.processes[index].connections = Connections::Used,
            Action::Close(index) => self.drop_flights(index, |flight| flight.orphan, fault),
            Action::CrashMember(index) => self.crash_member(index),
            Action::Break(index) => {
                self.left.breaks -= 1;
                self.orphan(index, fault);
            }
            Action::Begin(client, op) => self.begin(client, op),
            Action::CarryOut(index) => self.carry_out(index, bounds),
            Action::CarryOutLate(index) => {
                let wire = self.late.remove(index);
                self.carry_out_step(&wire, false);
            }
            Action::StartChange => {
                let now = in_force(&self.server.register()).expect("the action is there only then");
                let to = self.layouts.go_on(now, bounds, self.moved).expect("the action is there only then");
                self.start_change(bounds.changes, to, None, fault);
            }
            Action::StartPutBack(index) => {
                let known = self.processes[index].known.expect("only who served something knows of a loss");
                let to =
                    self.layouts.put_back(self.layouts.newest(known, &self.server.register()), &self.server.register());
                self.start_change(bounds.changes, to, Some(index), fault);
            }
            Action::Lose(loss) => {
                self.left.losses &= !(1 << loss);
                self.lose(bounds.losses[loss], fault);
            }
            Action::Replicate => {
                let Self { server, places, in_force, history, .. } = self.clone();
                self.replica = Some(Box::new(Replica { server, places, in_force, history }));
            }
            Action::Ask => self.ask(),
            Action::Coordinate => self.coordinate(fault),
            Action::CrashCoordinator => self.change = None,
            Action::CrashCoordinatorLate => {
                self.left.late -= 1;
                self.late.extend(self.coordinator_step());
                self.late.sort();
                self.change = None;
            }
            Action::StartMover(index) => {
                let layout = self.serves(index).unwrap_or_default();
                self.fly(Flight { who: Who::Mover, member: index, layout, step: Step::MoverRead, orphan: false });
            }
            Action::CrashMover => {
                self.left.mover_crashes -= 1;
                let mover = self.flights.iter().position(|flight| flight.who == Who::Mover && !flight.orphan);
                mover.into_iter().for_each(|index| self.orphan(index, fault));
            }
        }
    }

    pub(crate) fn look(&mut self, index: usize, fault: Option<Fault>) {
        let mut wire = Vec::new();
        self.processes[index].member.ask(&mut wire);
        let reply = self.server.ask(&wire);
        let found = self.meaning(&self.server.register(), index, fault);
        let process = &mut self.processes[index];
        process.member.see(&reply, |_| found).expect("a reply that can be read");
        let act = process.member.decide();
        process.holding = act == Act::Stop;
        process.pending = matches!(act, Act::Answer(_));
        process.serving_next = None;
        match act {
            Act::Stop => self.stop_if_idle(index, fault),
            Act::Rest => process.forget(),
            Act::Answer(_) => {}
            Act::Serve(layout) => process.serving_next = Some(number(layout)),
        }
    }

    /// It serves what it saw, on the connections that it has.
    pub(crate) fn serve(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let Some(layout) = process.serving_next.take() else { return };
        process.member.serves(self.layouts.revision(layout));
        process.known = Some(layout);
        process.forget();
    }

    /// A member that waits for what is under way has stopped once nothing is.
    fn stop_if_idle(&mut self, index: usize, fault: Option<Fault>) {
        let counts = |flight: &Flight| match fault {
            Some(Fault::ForgottenConnections) => !flight.orphan,
            Some(Fault::FreeMover) => flight.who != Who::Mover,
            _ => true,
        };
        let busy = self.flights.iter().any(|flight| flight.member == index && counts(flight));
        let process = &mut self.processes[index];
        if process.alive && process.holding && !busy {
            process.member.stopped();
            process.holding = false;
            let act = process.member.decide();
            process.pending = matches!(act, Act::Answer(_));
            if let Act::Serve(layout) = act {
                process.serving_next = Some(number(layout));
            }
        }
    }

    fn answer_step(&mut self, index: usize) -> (Answer, Vec<u8>) {
        let member = &mut self.processes[index].member;
        let Act::Answer(answer) = member.decide() else { unreachable!("the action is there only then") };
        let mut wire = Vec::new();
        member.answer(&answer, &mut wire);
        (answer, wire)
    }

    fn write_answer(&mut self, index: usize, fault: Option<Fault>) {
        let (answer, wire) = self.answer_step(index);
        let mut written = self.carry_out_step(&wire, false);
        let goes_on = matches!(answer.stance, Stance::Serving(_));
        if fault == Some(Fault::BlindResume) && goes_on {
            written = true;
        }
        let reply: &[u8] = if written { b":1\r\n" } else { b":0\r\n" };
        let process = &mut self.processes[index];
        process.member.answered(&answer, reply).expect("a reply that can be read");
        if let Some(serving) = process.member.serving() {
            process.known = Some(number(serving));
        }
        process.forget();
    }

    /// The server carries out a member's or a coordinator's atomic step.
    fn carry_out_step(&mut self, wire: &[u8], blind: bool) -> bool {
        let before = (self.server.layout, self.server.copy);
        let done = self.server.compare_and_set(wire, blind);
        if (self.server.layout, self.server.copy) != before {
            self.in_force = self.server.layout.expect("both halves are written");
        }
        done
    }

    fn lose(&mut self, loss: Loss, fault: Option<Fault>) {
        match loss {
            Loss::Register => (self.server.layout, self.server.copy) = (None, None),
            Loss::Copy => self.server.copy = None,
            Loss::SetBack => {
                let before = self.layouts.get(self.in_force).before;
                (self.server.layout, self.server.copy) = (before, before);
            }
            Loss::Announcement => self.server.change = None,
            Loss::Answers => self.server.answers.clear(),
            Loss::FailOver => self.fail_over(fault),
        }
    }

    fn fail_over(&mut self, fault: Option<Fault>) {
        let replica = *self.replica.take().expect("the action is there only then");
        let now_ms = self.server.now_ms;
        self.server = replica.server;
        self.server.pass(now_ms - self.server.now_ms);
        (self.places, self.in_force, self.history) = (replica.places, replica.in_force, replica.history);
        self.history.cut_off(self.now);
        self.places[Place::Plain as usize] = alive(self.places[Place::Plain as usize], self.now);
        self.flights.clear();
        self.late.clear();
        // Whoever changes the layout, or has walked over the keys, did so on a connection that is gone.
        self.change = None;
        if fault != Some(Fault::KeptWalk) {
            self.moved = None;
        }
        for index in 0..self.processes.len() {
            self.processes[index].member.looks_anew();
            self.processes[index].connections = Connections::Closed;
            self.stop_if_idle(index, fault);
        }
    }

    fn crash_member(&mut self, index: usize) {
        self.left.member_crashes -= 1;
        self.processes[index].alive = false;
        self.processes[index].connections = Connections::Closed;
        self.change = self.change.take().filter(|change| change.member != Some(index));
        for client in (0..CLIENTS).filter(|client| client % self.processes.len() == index) {
            self.left.commands[client] = 0;
        }
        self.flights.iter_mut().filter(|flight| flight.member == index).for_each(|flight| flight.orphan = true);
        self.settle_flights();
    }

    /// Nobody waits for this step any more; the server may carry it out all the same.
    fn orphan(&mut self, index: usize, fault: Option<Fault>) {
        let Flight { who, member, .. } = self.flights[index];
        self.flights[index].orphan = true;
        if let Who::Client(client) = who {
            self.left.commands[client] = 0;
        }
        self.settle_flights();
        self.stop_if_idle(member, fault);
    }

    fn begin(&mut self, client: usize, op: Op) {
        let member = client % self.processes.len();
        let layout = self.serves(member).unwrap_or_default();
        self.left.commands[client] -= 1;
        self.history.begin(client, op);
        let step = Step::first(op, &self.layouts.get(layout).route);
        self.fly(Flight { who: Who::Client(client), member, layout, step, orphan: false });
    }

    fn fly(&mut self, flight: Flight) {
        self.flights.push(flight);
        self.settle_flights();
    }

    /// Equal worlds look equal.
    fn settle_flights(&mut self) {
        self.flights.sort();
        self.flights.dedup_by(|one, other| one == other && one.who == Who::Mover);
    }

    fn carry_out(&mut self, index: usize, bounds: &Bounds) {
        let flight = self.flights.remove(index);
        let route = self.layouts.get(flight.layout).route;
        let after = flight.step.carry_out(&mut self.places, &route, self.now, bounds.fault);
        match (after, flight.who) {
            (After::Next(step), _) if !flight.orphan => self.fly(Flight { step, ..flight }),
            (After::Next(_), Who::Client(client)) => self.history.give_up(client),
            (After::Answer(answer), Who::Client(client)) => self.history.answer(client, answer),
            (After::Moved, _) if !flight.orphan => self.moved = Some(flight.layout),
            _ => {}
        }
        self.stop_if_idle(flight.member, bounds.fault);
    }

    /// The server closes connections of a member: what was sent on them is gone.
    fn drop_flights(&mut self, member: usize, which: impl Fn(&Flight) -> bool, fault: Option<Fault>) {
        for flight in self.flights.extract_if(.., |flight| flight.member == member && which(flight)) {
            if let Who::Client(client) = flight.who {
                self.history.give_up(client);
                self.left.commands[client] = 0;
            }
        }
        self.stop_if_idle(member, fault);
    }

    fn start_change(&mut self, all: u8, to: u8, member: Option<usize>, fault: Option<Fault>) {
        let number = u64::from(all - self.left.changes) + 1;
        let register = self.server.register();
        let known = member.and_then(|index| self.processes[index].known);
        let base = in_force(&register).into_iter().chain(known).map(|number| self.layouts.revision(number)).max();
        let mut coordinator = Coordinator::new(number, register, &text_of(to), base.unwrap_or_default());
        let is_lost = member.is_some_and(|index| self.processes[index].member.found() == Found::Lost);
        if is_lost && fault != Some(Fault::PassesOver) {
            coordinator = coordinator.hearing_all();
        }
        self.left.changes -= 1;
        self.change = Some(Change { coordinator, fresh: false, to, member });
        self.ask();
    }

    fn ask(&mut self) {
        let Some(change) = &mut self.change else { return };
        let mut wire = Vec::new();
        change.coordinator.ask(&mut wire);
        let reply = self.server.ask(&wire);
        change.coordinator.see(&reply).expect("a reply that can be read");
        change.fresh = !matches!(change.coordinator.decide(), Course::Wait(_));
        if !change.fresh {
            change.forget();
        }
    }

    /// The step that the coordinator sends next, where it is one of the atomic ones.
    pub(crate) fn coordinator_step(&self) -> Option<Vec<u8>> {
        let mut coordinator = self.change.as_ref()?.coordinator.clone();
        let mut wire = Vec::new();
        match coordinator.decide() {
            Course::Announce(announcement) => coordinator.announce(&announcement, &mut wire),
            Course::Activate => coordinator.activate(&mut wire),
            Course::GiveUp(_) => coordinator.withdraw(&mut wire),
            Course::Warn | Course::List | Course::Close(_) | Course::Wait(_) | Course::Done => {}
        }
        Some(wire).filter(|wire| !wire.is_empty())
    }

    fn coordinate(&mut self, fault: Option<Fault>) {
        let step = self.coordinator_step();
        let Some(mut change) = self.change.take() else { return };
        let course = change.coordinator.decide();
        let blind = fault == Some(Fault::BlindChange) && course == Course::Activate;
        let done = step.is_some_and(|wire| self.carry_out_step(&wire, blind));
        match course {
            Course::Announce(announcement) => {
                let reply: &[u8] = if done { b":1\r\n" } else { b":0\r\n" };
                change.coordinator.announced(&announcement, reply).expect("a reply that can be read");
                if fault == Some(Fault::EarlyList) && done {
                    change.coordinator.listed(change.coordinator.connections().to_vec());
                }
            }
            Course::List => change.coordinator.listed(self.list()),
            Course::Close(connections) => {
                self.close_connections(&connections, fault);
                change.coordinator.closed();
                if fault == Some(Fault::NoFence) {
                    let is_left = |one: &Connection| !connections.contains(one);
                    change.coordinator.listed(self.list().into_iter().filter(is_left).collect());
                }
            }
            Course::Done | Course::GiveUp(_) => return,
            Course::Activate => {
                let reply: &[u8] = if done { b":1\r\n" } else { b":0\r\n" };
                change.coordinator.activated(reply).expect("a reply that can be read");
            }
            Course::Wait(_) | Course::Warn => {}
        }
        change.forget();
        self.change = Some(change);
    }

    fn close_connections(&mut self, connections: &[Connection], fault: Option<Fault>) {
        if fault == Some(Fault::NoFence) {
            return;
        }
        for connection in connections {
            let index = usize::try_from(connection.id).expect("a member's number");
            self.processes[index].connections = Connections::Closed;
            self.drop_flights(index, |_| true, fault);
        }
    }
}
