//! The whole at one moment, and all that can happen next.
//!
//! Whatever can happen is an action of its own: a step that was sent is carried out at any later moment, or never;
//! a member acts on what it saw long ago; time passes at any moment.

use keyfold_core::change::{
    Announcement, Connection, Coordinator, Found, HELD_MS, Member, Owner, PREPARED_MS, READY_MS, Register,
};
use keyfold_core::layout::Revision;

use crate::bounds::{Bounds, Fault, Loss, Route};
use crate::history::{CLIENTS, History};
use crate::keys::{Held, Op, Step};
use crate::layouts::{Layouts, in_force, number};
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
    pub(crate) layout: u8,
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
    /// What it has decided to serve.
    pub(crate) serving_next: Option<u8>,
    pub(crate) connections: Connections,
    /// The layout that it serves, or served last; none before the first.
    pub(crate) known: Option<u8>,
    pub(crate) alive: bool,
}

/// The connections of a member that requests travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Connections {
    Closed,
    /// They are named, and nobody has looked on them yet.
    Named,
    Used,
}

/// A coordinator's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) coordinator: Coordinator,
    /// It has asked since it did something.
    pub(crate) fresh: bool,
    /// What it would put in force.
    pub(crate) to: u8,
    /// The member in whose process it runs, to put back what was lost.
    pub(crate) member: Option<usize>,
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
    pub(crate) losses: u8,
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
    pub(crate) layouts: Layouts,
    /// The one that was put in force last, whatever the register says.
    pub(crate) in_force: u8,
    /// The layout under which the mover has seen that nothing is left.
    pub(crate) moved: Option<u8>,
    pub(crate) flights: Vec<Flight>,
    /// Steps of members and coordinators that nobody waits for.
    pub(crate) late: Vec<Vec<u8>>,
    pub(crate) history: History,
    /// What would take the server's place.
    pub(crate) replica: Option<Box<Replica>>,
    pub(crate) left: Left,
}

/// The server at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    pub(crate) server: Server,
    pub(crate) places: [Held; 3],
    pub(crate) in_force: u8,
    pub(crate) history: History,
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
    /// It writes its answer.
    Write(usize),
    /// It sends that, and doesn't hear of it.
    WriteLate(usize),
    /// It serves what it saw.
    Serve(usize),
    GoOn(usize),
    /// It opens connections, which are named.
    Name(usize),
    /// It looks on them, and uses them from then on.
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
    /// A member begins to put back what was lost.
    StartPutBack(usize),
    Lose(usize),
    /// A replica gets all that the server holds, and nothing any more.
    Replicate,
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
        let server = Server {
            now_ms: 1_000,
            answers: Default::default(),
            change: None,
            layout: Some(0),
            copy: Some(0),
            witnesses: Default::default(),
        };
        let process = |id: usize| Process {
            member: Member::new(id.to_string().as_bytes(), "", Revision::default()),
            holding: false,
            pending: false,
            serving_next: None,
            connections: Connections::Closed,
            known: None,
            alive: true,
        };
        let mut world = Self {
            server,
            places,
            now: 0,
            processes: (0..bounds.members).map(process).collect(),
            change: None,
            layouts: Layouts::new(bounds),
            in_force: 0,
            moved: None,
            flights: Vec::new(),
            late: Vec::new(),
            history: History::new(bounds.held),
            replica: None,
            left: Left {
                commands: bounds.commands,
                ticks: (1 << bounds.ticks_ms.len()) - 1,
                changes: bounds.changes,
                mover_crashes: bounds.mover_crashes,
                member_crashes: bounds.member_crashes,
                breaks: bounds.breaks,
                late: bounds.late,
                go_ons: bounds.go_ons,
                losses: (1 << bounds.losses.len()) - 1,
            },
        };
        for index in 0..bounds.members - usize::from(bounds.joins) {
            world.look(index, None);
            world.serve(index);
            world.processes[index].connections = Connections::Used;
        }
        world
    }

    /// The places by the layout in force.
    pub(crate) fn route(&self) -> &Route {
        &self.layouts.get(self.in_force).route
    }

    /// Whether a member would begin a request, and under which layout.
    pub(crate) fn serves(&self, index: usize) -> Option<u8> {
        let process = &self.processes[index];
        let able = process.alive && process.connections == Connections::Used && !process.holding;
        process.member.serving().filter(|_| able).map(number)
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
            && let Some(layout) = self.serves(index)
            && self.layouts.get(layout).route.old.is_some()
            && self.moved != Some(layout)
            && !self.mover_is_under_way()
        {
            actions.push(Action::StartMover(index));
        }
        if self.left.mover_crashes > 0 && self.mover_is_under_way() {
            actions.push(Action::CrashMover);
        }
        let losses = (0..bounds.losses.len()).filter(|loss| self.left.losses & (1 << loss) != 0);
        let mut losses = losses.map(|loss| (loss, bounds.losses[loss])).collect::<Vec<_>>();
        if self.replica.is_none() && losses.iter().any(|(_, loss)| *loss == Loss::FailOver) {
            actions.push(Action::Replicate);
        }
        losses.retain(|(_, loss)| self.can_lose(*loss));
        actions.extend(losses.into_iter().map(|(number, _)| Action::Lose(number)));
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
        } else if process.serving_next.is_some() {
            actions.push(Action::Serve(index));
        } else {
            actions.push(Action::Look(index));
        }
        if process.holding && self.left.go_ons > 0 {
            actions.push(Action::GoOn(index));
        }
        match process.connections {
            Connections::Closed => actions.push(Action::Name(index)),
            Connections::Named if self.may_connect(index, bounds) => actions.push(Action::Connect(index)),
            Connections::Named | Connections::Used => {}
        }
        if self.flights.iter().any(|flight| flight.member == index && flight.orphan) {
            actions.push(Action::Close(index));
        }
        if self.left.member_crashes > 0 {
            actions.push(Action::CrashMember(index));
        }
        if self.change.is_none() && self.left.changes > 0 && self.is_lost(index, bounds) {
            actions.push(Action::StartPutBack(index));
        }
    }

    /// Whether a member's own look on new connections finds that it may use them.
    fn may_connect(&self, index: usize, bounds: &Bounds) -> bool {
        let process = &self.processes[index];
        let serving = process.member.serving().map(number);
        let same = serving.is_some() && in_force(&self.server.register()) == serving;
        bounds.fault == Some(Fault::UncheckedConnections) || (same && !self.holds())
    }

    /// Whether *hold* is announced.
    fn holds(&self) -> bool {
        Announcement::holds(self.server.change.as_ref().map(|(text, _)| text.as_slice()))
    }

    /// Whether a member would put back what it served, as it is seen to be lost still.
    fn is_lost(&self, index: usize, bounds: &Bounds) -> bool {
        let process = &self.processes[index];
        let mut member = process.member.clone();
        let mut wire = Vec::new();
        member.ask(&mut wire);
        let found = self.meaning(&self.server.register(), index, bounds.fault);
        member.see(&self.server.ask(&wire), |_| found).expect("a reply that can be read");
        process.known.is_some() && process.member.must_put_back() && member.must_put_back()
    }

    pub(crate) fn meaning(&self, register: &Register, index: usize, fault: Option<Fault>) -> Found {
        self.layouts.meaning(register, self.processes[index].known, fault == Some(Fault::ObeysTheOlder))
    }

    /// Whether there is something to lose.
    fn can_lose(&self, loss: Loss) -> bool {
        match loss {
            Loss::Register => self.server.layout.is_some() || self.server.copy.is_some(),
            Loss::Copy => self.server.copy.is_some(),
            Loss::SetBack => self.layouts.get(self.in_force).before.is_some(),
            Loss::Announcement => self.server.change.is_some(),
            Loss::Answers => !self.server.answers.is_empty(),
            Loss::FailOver => self.replica.is_some(),
        }
    }

    /// All connections of keyfold's that the server would list, by what it knows: a broken one with something to carry
    /// out is there still.
    pub(crate) fn list(&self) -> Vec<Connection> {
        let is_there = |index: &usize| {
            let open = self.processes[*index].connections != Connections::Closed;
            open || self.flights.iter().any(|flight| flight.member == *index)
        };
        let connection = |index: usize| Connection {
            node: 0,
            id: i64::try_from(index).expect("few members"),
            owner: Owner::Member(index.to_string().into_bytes()),
            address: String::new(),
        };
        (0..self.processes.len()).filter(is_there).map(connection).collect()
    }

    fn change_actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        let Some(change) = &self.change else {
            let now = in_force(&self.server.register());
            let next = now.and_then(|now| self.layouts.next(now, bounds, self.moved));
            if self.left.changes > 0 && next.is_some() {
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

/// Longer than members have to say that they are ready, and shorter than the announcement lasts.
pub(crate) const SILENCE_MS: i64 = READY_MS + 1;
/// Longer than any announcement lasts.
pub(crate) const ANNOUNCEMENT_IS_OVER_MS: i64 = if PREPARED_MS > HELD_MS { PREPARED_MS } else { HELD_MS } + 1;
