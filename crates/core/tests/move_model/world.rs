//! The whole at one moment, and all that can happen next.
//!
//! Whatever can happen is an action of its own: a step that was sent is carried out at any later moment, or never;
//! a member acts on what it saw long ago; time passes at any moment.

use keyfold_core::change::{Coordinator, LEASE_MS, LeaseView, Member};

use crate::bounds::{Bounds, Fault, Route};
use crate::history::{CLIENTS, History};
use crate::keys::{Held, Op, Step};
use crate::server::Server;

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
        if !process.connected && (bounds.fault == Some(Fault::UncheckedConnections) || self.lease_is_there(index)) {
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
            let next = bounds.route.iter().zip(1..).find(|(_, epoch)| *epoch == self.server.epoch + 1);
            let emptied = self.moved == Some(self.server.epoch) || self.route(bounds).old.is_none();
            if self.left.changes > 0 && next.is_some_and(|(next, _)| next.old.is_some() || emptied) {
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
}

/// The places by an epoch's layout.
pub(crate) fn route(bounds: &Bounds, epoch: u64) -> &Route {
    let index = usize::try_from(epoch).expect("few epochs");
    &bounds.route[index - 1]
}

/// Longer than a lease.
pub(crate) const LEASE_IS_OVER_MS: i64 = LEASE_MS + 1;
