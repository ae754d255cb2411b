//! What each action does to the world.

use keyfold_core::change::{Act, Coordinator, Course, Lease, LeaseView};
use keyfold_core::layout::Epoch;

use crate::bounds::{Bounds, Fault, Place};
use crate::history::CLIENTS;
use crate::keys::{After, Op, Step, alive};
use crate::server::{epoch_of, layout_text};
use crate::world::{Action, Change, Flight, Process, Who, World, route};

/// What a server says that holds nothing: to who asks again before acting it is all the same what it saw before.
const NOTHING_SEEN: &[u8] = b"*4\r\n*2\r\n$1\r\n0\r\n$1\r\n0\r\n$-1\r\n$-1\r\n$-1\r\n";

impl Process {
    fn forget(&mut self) {
        (self.pending, self.holding) = (false, false);
        self.member.see(&[NOTHING_SEEN.to_vec()], |_| Epoch(0)).expect("a reply that can be read");
    }
}

impl Change {
    fn forget(&mut self) {
        self.coordinator.see(&[NOTHING_SEEN.to_vec()], |_| Epoch(0)).expect("a reply that can be read");
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
            Action::Write(index) => self.write_lease(index, fault),
            Action::WriteLate(index) => {
                self.left.late -= 1;
                let wire = self.lease_step(index).1;
                self.late.push(wire);
                self.late.sort();
                self.processes[index].forget();
            }
            Action::GoOn(index) => {
                self.left.go_ons -= 1;
                self.processes[index].member.go_on();
                self.processes[index].forget();
            }
            Action::Connect(index) => self.processes[index].connected = true,
            Action::Close(index) => self.drop_flights(index, |flight| flight.orphan, fault),
            Action::CrashMember(index) => self.crash_member(index),
            Action::Break(index) => {
                self.left.breaks -= 1;
                self.orphan(index, fault);
            }
            Action::Begin(client, op) => self.begin(client, op, bounds),
            Action::CarryOut(index) => self.carry_out(index, bounds),
            Action::CarryOutLate(index) => {
                let wire = self.late.remove(index);
                self.server.compare_and_set(&wire, false);
            }
            Action::StartChange => self.start_change(bounds.changes),
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
                let epoch = self.serves(index).unwrap_or_default();
                self.fly(Flight { who: Who::Mover, member: index, epoch, step: Step::MoverRead, orphan: false });
            }
            Action::CrashMover => {
                self.left.mover_crashes -= 1;
                let mover = self.flights.iter().position(|flight| flight.who == Who::Mover && !flight.orphan);
                mover.into_iter().for_each(|index| self.orphan(index, fault));
            }
        }
    }

    pub(crate) fn look(&mut self, index: usize, fault: Option<Fault>) {
        let process = &mut self.processes[index];
        let mut wire = Vec::new();
        process.member.ask(&mut wire);
        let reply = self.server.ask(&wire);
        process.member.see(&[reply], |text| Epoch(epoch_of(text))).expect("a reply that can be read");
        let act = process.member.decide();
        process.holding = act == Act::Stop;
        process.pending = matches!(act, Act::Write(_));
        match act {
            Act::Stop => self.stop_if_idle(index, fault),
            Act::Rest => process.forget(),
            Act::Write(_) => {}
        }
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
            process.pending = matches!(process.member.decide(), Act::Write(_));
        }
    }

    fn lease_step(&self, index: usize) -> (Lease, Vec<u8>) {
        let member = &self.processes[index].member;
        let Act::Write(lease) = member.decide() else { unreachable!("the action is there only then") };
        let mut wire = Vec::new();
        member.write(&lease, &mut wire);
        (lease, wire)
    }

    pub(crate) fn write_lease(&mut self, index: usize, fault: Option<Fault>) {
        let (lease, wire) = self.lease_step(index);
        let mut written = self.server.compare_and_set(&wire, false);
        if fault == Some(Fault::BlindResume) && self.processes[index].member.serving().is_none() {
            written = true;
        }
        let reply: &[u8] = if written { b":1\r\n" } else { b":0\r\n" };
        let process = &mut self.processes[index];
        process.member.written(&lease, reply).expect("a reply that can be read");
        process.forget();
    }

    fn crash_member(&mut self, index: usize) {
        self.left.member_crashes -= 1;
        self.processes[index].alive = false;
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

    fn begin(&mut self, client: usize, op: Op, bounds: &Bounds) {
        let member = client % self.processes.len();
        let epoch = self.serves(member).unwrap_or_default();
        self.left.commands[client] -= 1;
        self.history.begin(client, op);
        let step = Step::first(op, route(bounds, epoch));
        self.fly(Flight { who: Who::Client(client), member, epoch, step, orphan: false });
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
        let route = route(bounds, flight.epoch);
        let after = flight.step.carry_out(&mut self.places, route, self.now, bounds.fault);
        match (after, flight.who) {
            (After::Next(step), _) if !flight.orphan => self.fly(Flight { step, ..flight }),
            (After::Next(_), Who::Client(client)) => self.history.give_up(client),
            (After::Answer(answer), Who::Client(client)) => self.history.answer(client, answer),
            (After::Moved, _) if !flight.orphan => self.moved = Some(flight.epoch),
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

    fn start_change(&mut self, all: u8) {
        let from = Epoch(self.server.epoch);
        let coordinator = Coordinator::new(u64::from(all - self.left.changes) + 1, from, from.next());
        self.left.changes -= 1;
        self.change = Some(Change { coordinator, fresh: false, evicting: None });
        self.ask();
    }

    fn ask(&mut self) {
        let Some(change) = &mut self.change else { return };
        let mut wire = Vec::new();
        change.coordinator.ask(&mut wire);
        let reply = self.server.ask(&wire);
        change.coordinator.see(&[reply], |text| Epoch(epoch_of(text))).expect("a reply that can be read");
        change.fresh = !matches!(change.coordinator.decide(), Course::Wait(_));
        if !change.fresh {
            change.forget();
        }
    }

    /// The step that the coordinator sends next, where it is one of the atomic ones.
    pub(crate) fn coordinator_step(&self) -> Option<Vec<u8>> {
        let Change { coordinator, evicting, .. } = self.change.as_ref()?;
        let mut wire = Vec::new();
        match (evicting, coordinator.decide()) {
            (Some(_), _) => {}
            (None, Course::Announce(announcement)) => coordinator.announce(&announcement, &mut wire),
            (None, Course::Evict(view)) => coordinator.evict(&view, &mut wire),
            (None, Course::Activate) => coordinator.activate(&layout_text(self.server.epoch + 1), &mut wire),
            (None, Course::GiveUp(_)) => coordinator.withdraw(&mut wire),
            (None, Course::Wait(_) | Course::Done) => {}
        }
        Some(wire).filter(|wire| !wire.is_empty())
    }

    fn coordinate(&mut self, fault: Option<Fault>) {
        let step = self.coordinator_step();
        let Some(mut change) = self.change.take() else { return };
        let course = change.coordinator.decide();
        let blind = fault == Some(Fault::BlindChange) && course == Course::Activate;
        let done = step.is_some_and(|wire| self.server.compare_and_set(&wire, blind));
        change.evicting = match (change.evicting.take(), course) {
            (Some(view), _) => {
                if fault != Some(Fault::NoFence) {
                    self.close_connections(&view, fault);
                }
                None
            }
            (None, Course::Evict(view)) if done => {
                if fault == Some(Fault::LateFence) {
                    self.server.leases.retain(|_, text| !text.ends_with(&view.text));
                }
                Some(view)
            }
            (None, Course::Announce(announcement)) => {
                let reply: &[u8] = if done { b":1\r\n" } else { b":0\r\n" };
                change.coordinator.announced(&announcement, reply).expect("a reply that can be read");
                None
            }
            (None, Course::Done | Course::GiveUp(_)) => return,
            (None, _) => None,
        };
        change.fresh = change.evicting.is_some();
        if !change.fresh {
            change.forget();
        }
        self.change = Some(change);
    }

    fn close_connections(&mut self, view: &LeaseView, fault: Option<Fault>) {
        let Some(index) = self.processes.iter().position(|process| process.member.id() == view.member) else { return };
        self.processes[index].connected = false;
        self.drop_flights(index, |_| true, fault);
    }
}
