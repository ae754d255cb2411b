//! The whole at one moment, and all that can happen next.
//!
//! Whatever can happen is an action of its own: a step that was sent is carried out at any later moment, or never;
//! a member acts on what it saw long ago; time passes at any moment.

use keyfold_core::change::{Act, Coordinator, Course, LEASE_MS, LeaseView, Member};
use keyfold_core::layout::Epoch;

use crate::bounds::{Bounds, Fault, Place, Route};
use crate::history::{CLIENTS, History};
use crate::keys::{After, Held, Op, Step, alive};
use crate::server::{Server, epoch_of, layout_text};

/// Whose a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Who {
    Client(usize),
    Mover,
}

/// A step on the key, under way on a connection of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Flight {
    pub(crate) who: Who,
    pub(crate) member: usize,
    pub(crate) epoch: u64,
    pub(crate) step: Step,
    /// Nobody waits for it: its connection broke, or its process is gone.
    pub(crate) orphan: bool,
}

/// A member's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) member: Member,
    /// It begins no request, and waits for those under way.
    pub(crate) holding: bool,
    /// It has something to write.
    pub(crate) pending: bool,
    /// It has connections that requests may travel on.
    pub(crate) connected: bool,
    pub(crate) alive: bool,
}

/// A coordinator's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) coordinator: Coordinator,
    /// It has asked since it did something.
    pub(crate) fresh: bool,
    /// The member whose connections the server is to close.
    pub(crate) evicting: Option<LeaseView>,
}

/// What is left of the bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) commands: [u8; CLIENTS],
    pub(crate) ticks: u8,
    pub(crate) changes: u8,
    pub(crate) mover_crashes: u8,
    pub(crate) member_crashes: u8,
    pub(crate) breaks: u8,
    pub(crate) late: u8,
    pub(crate) go_ons: u8,
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) places: [Held; 3],
    /// The key's clock.
    pub(crate) now: u8,
    pub(crate) processes: Vec<Process>,
    pub(crate) change: Option<Change>,
    /// The epoch in which the mover has seen that nothing is left.
    pub(crate) moved: Option<u64>,
    pub(crate) flights: Vec<Flight>,
    /// Steps of members and coordinators that nobody waits for.
    pub(crate) late: Vec<Vec<u8>>,
    pub(crate) history: History,
    pub(crate) left: Left,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The members' and coordinators' time passes.
    Pass(usize),
    /// The key's does.
    Tick,
    /// A member asks.
    Look(usize),
    /// It writes its lease.
    Write(usize),
    /// It sends that, and doesn't hear of it.
    WriteLate(usize),
    GoOn(usize),
    Connect(usize),
    /// A member has the server close its connections that broke.
    Close(usize),
    CrashMember(usize),
    Break(usize),
    Begin(usize, Op),
    /// The server carries a step out.
    CarryOut(usize),
    CarryOutLate(usize),
    StartChange,
    Ask,
    Coordinate,
    CrashCoordinator,
    /// It had sent what it had decided to do.
    CrashCoordinatorLate,
    StartMover(usize),
    CrashMover,
}

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
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let mut places = [None; 3];
        places[bounds.route[0].new as usize] = bounds.held;
        let server = Server { now_ms: 1_000, leases: Default::default(), change: None, epoch: 1 };
        let process = |id: usize| Process {
            member: Member::new(id.to_string().as_bytes(), ""),
            holding: false,
            pending: false,
            connected: false,
            alive: true,
        };
        let mut world = Self {
            server,
            places,
            now: 0,
            processes: (0..bounds.members).map(process).collect(),
            change: None,
            moved: None,
            flights: Vec::new(),
            late: Vec::new(),
            history: History::new(bounds.held),
            left: Left {
                commands: bounds.commands,
                ticks: (1 << bounds.ticks_ms.len()) - 1,
                changes: bounds.changes,
                mover_crashes: bounds.mover_crashes,
                member_crashes: bounds.member_crashes,
                breaks: bounds.breaks,
                late: bounds.late,
                go_ons: bounds.go_ons,
            },
        };
        for index in 0..bounds.members - usize::from(bounds.joins) {
            world.look(index, None);
            world.write_lease(index, None);
            world.processes[index].connected = true;
        }
        world
    }

    pub(crate) fn route<'b>(&self, bounds: &'b Bounds) -> &'b Route {
        route(bounds, self.server.epoch)
    }

    /// Whether a member would begin a request, and under which epoch.
    pub(crate) fn serves(&self, index: usize) -> Option<u64> {
        let process = &self.processes[index];
        let able = process.alive && process.connected && !process.holding;
        process.member.serving().filter(|_| able).map(|epoch| epoch.0)
    }

    /// The member that has the mover with it.
    fn mover_at(&self) -> Option<usize> {
        self.processes.iter().rposition(|process| process.alive)
    }

    fn mover_is_under_way(&self) -> bool {
        self.flights.iter().any(|flight| flight.who == Who::Mover && !flight.orphan)
    }

    /// All that can happen next.
    pub(crate) fn actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        let ticks = (0..bounds.ticks_ms.len()).filter(|tick| self.left.ticks & (1 << tick) != 0);
        actions.extend(ticks.map(Action::Pass));
        if self.now < bounds.key_ticks {
            actions.push(Action::Tick);
        }
        (0..self.processes.len()).for_each(|index| self.member_actions(index, bounds, actions));
        self.change_actions(bounds, actions);
        for (index, flight) in self.flights.iter().enumerate() {
            actions.push(Action::CarryOut(index));
            if self.left.breaks > 0 && !flight.orphan {
                actions.push(Action::Break(index));
            }
        }
        for client in 0..CLIENTS {
            let idle = !self.flights.iter().any(|flight| flight.who == Who::Client(client));
            if idle && self.left.commands[client] > 0 && self.serves(client % self.processes.len()).is_some() {
                actions.extend(bounds.ops[client].iter().map(|op| Action::Begin(client, *op)));
            }
        }
        actions.extend((0..self.late.len()).map(Action::CarryOutLate));
        if let Some(index) = self.mover_at()
            && let Some(epoch) = self.serves(index)
            && route(bounds, epoch).old.is_some()
            && self.moved != Some(epoch)
            && !self.mover_is_under_way()
        {
            actions.push(Action::StartMover(index));
        }
        if self.left.mover_crashes > 0 && self.mover_is_under_way() {
            actions.push(Action::CrashMover);
        }
    }

    fn member_actions(&self, index: usize, bounds: &Bounds, actions: &mut Vec<Action>) {
        let process = &self.processes[index];
        if !process.alive {
            return;
        }
        if process.pending {
            actions.push(Action::Write(index));
            if self.left.late > 0 {
                actions.push(Action::WriteLate(index));
            }
        } else {
            actions.push(Action::Look(index));
        }
        if process.holding && self.left.go_ons > 0 {
            actions.push(Action::GoOn(index));
        }
        if !process.connected
            && (bounds.fault == Some(Fault::UncheckedConnections) || self.lease_is_there(index))
        {
            actions.push(Action::Connect(index));
        }
        if self.flights.iter().any(|flight| flight.member == index && flight.orphan) {
            actions.push(Action::Close(index));
        }
        if self.left.member_crashes > 0 {
            actions.push(Action::CrashMember(index));
        }
    }

    /// What a member sees that names a connection and then asks for its lease.
    fn lease_is_there(&self, index: usize) -> bool {
        self.server.leases.contains_key(self.processes[index].member.id())
    }

    fn change_actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        let Some(change) = &self.change else {
            let next = bounds.route.get(self.server.epoch as usize);
            let emptied = self.moved == Some(self.server.epoch) || self.route(bounds).old.is_none();
            if self.left.changes > 0 && next.is_some_and(|next| next.old.is_some() || emptied) {
                actions.push(Action::StartChange);
            }
            return;
        };
        if !change.fresh {
            actions.push(Action::Ask);
        }
        if self.left.changes > 0 {
            actions.push(Action::CrashCoordinator);
        }
        if change.fresh {
            actions.push(Action::Coordinate);
            if self.left.late > 0 && self.left.changes > 0 && self.coordinator_step().is_some() {
                actions.push(Action::CrashCoordinatorLate);
            }
        }
    }

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

    fn look(&mut self, index: usize, fault: Option<Fault>) {
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
        let forgets = fault == Some(Fault::ForgottenConnections);
        let busy = self.flights.iter().any(|flight| flight.member == index && !(forgets && flight.orphan));
        let process = &mut self.processes[index];
        if process.alive && process.holding && !busy {
            process.member.stopped();
            process.holding = false;
            process.pending = matches!(process.member.decide(), Act::Write(_));
        }
    }

    fn lease_step(&self, index: usize) -> (keyfold_core::change::Lease, Vec<u8>) {
        let member = &self.processes[index].member;
        let Act::Write(lease) = member.decide() else { unreachable!("the action is there only then") };
        let mut wire = Vec::new();
        member.write(&lease, &mut wire);
        (lease, wire)
    }

    fn write_lease(&mut self, index: usize, fault: Option<Fault>) {
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
    fn coordinator_step(&self) -> Option<Vec<u8>> {
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

fn route(bounds: &Bounds, epoch: u64) -> &Route {
    &bounds.route[epoch as usize - 1]
}

/// Longer than a lease.
pub(crate) const LEASE_IS_OVER_MS: i64 = LEASE_MS + 1;
