//! The whole at one moment, and all that can happen next.

use keyfold_core::admin::witness;
use keyfold_core::change::{Clearance, Connection, Coordinator, Found, Look, Member, Owner, Register};
use keyfold_core::layout::{Attempt, Epoch, Revision};
use keyfold_core::slot::Slot;

use crate::server::{Server, number_of, text_of};

/// A rule of the protocol that isn't kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Witnesses are not told of a change.
    NoWarning,
    /// The home's word is enough.
    OneWord,
    /// A look serves connections that were named after it had begun.
    NamedLate,
    /// Only the home's primary is asked who is there.
    OneList,
    /// A member that has held takes what a home says that was set back for a proof that nothing was replaced.
    KeptSight,
    /// A witness that knows of a change which the home doesn't is brought back to the home's layout.
    Backward,
}

/// How much there is of everything.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The second of two members has no connections at first, serves all the same, and connects to this shard.
    pub(crate) cut_off: Option<usize>,
    /// It hangs: it doesn't look at the home until it is connected.
    pub(crate) hangs: bool,
    /// How many requests each sends.
    pub(crate) requests: [u8; 2],
    /// How many coordinators are started.
    pub(crate) changes: u8,
    /// How many of them die, or find that a node is away.
    pub(crate) failures: u8,
    /// How many witnesses members look at.
    pub(crate) tends: u8,
    /// How many looks of new connections each begins.
    pub(crate) looks: u8,
    /// How many steps of coordinators come late, when nobody waits for them any more.
    pub(crate) late: u8,
    /// How time passes, in milliseconds: each once, in any order.
    pub(crate) ticks_ms: &'static [i64],
    /// The shards that are set back, each once.
    pub(crate) losses: &'static [usize],
    pub(crate) fault: Option<Fault>,
}

/// The slots of the witnesses, and the shards they lie on.
pub(crate) fn witnesses() -> [(Slot, usize); 2] {
    let slots: Vec<Slot> = witness::slots().collect();
    [(slots[2], 0), (slots[3], 1)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Flight {
    pub(crate) member: usize,
    pub(crate) shard: usize,
    pub(crate) layout: u8,
}

/// A member's connections to one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    Closed,
    Named,
    /// A look has begun since.
    Looking,
    Used,
}

/// A member's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) member: Member,
    pub(crate) holding: bool,
    pub(crate) serving_next: Option<u8>,
    pub(crate) lines: [Line; 2],
    pub(crate) look: Option<Look<u8>>,
    /// What it has heard in it: the home, and the witnesses.
    pub(crate) heard: [bool; 3],
    /// The layout that it serves, or served last.
    pub(crate) known: u8,
    /// What witnesses held, which were asked since its last look at the home.
    pub(crate) witnessed: [Option<Option<Vec<u8>>>; 2],
    /// A layout that a witness knows of and the home doesn't.
    pub(crate) doubt: Option<u8>,
}

/// A coordinator's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) coordinator: Coordinator,
    /// How many nodes have had the step that goes to several.
    pub(crate) done: usize,
    pub(crate) listed: Vec<Connection>,
    /// Whatever came of it, the witnesses are told now.
    pub(crate) is_over: bool,
}

/// A layout: the places it reads, as bits, and the one it writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) epoch: u8,
    pub(crate) reads: u8,
    pub(crate) writes: u8,
    pub(crate) is_put_back: bool,
}

/// What is left of the bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) requests: [u8; 2],
    pub(crate) looks: [u8; 2],
    pub(crate) changes: u8,
    pub(crate) failures: u8,
    pub(crate) tends: u8,
    pub(crate) late: u8,
    pub(crate) ticks: u8,
    pub(crate) losses: u8,
}

/// The whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The first has the home.
    pub(crate) shards: [Server; 2],
    /// The places that hold something, on each.
    pub(crate) data: [u8; 2],
    /// What would take each primary's place.
    pub(crate) replicas: [Option<Box<(Server, u8)>>; 2],
    /// Which node has each.
    pub(crate) nodes: [u8; 2],
    pub(crate) processes: Vec<Process>,
    pub(crate) change: Option<Change>,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) flights: Vec<Flight>,
    /// Steps that nobody waits for, each with the shard it was sent to.
    pub(crate) late: Vec<(usize, Vec<u8>)>,
    pub(crate) left: Left,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pass(usize),
    /// A member asks a witness what it holds.
    Witness(usize, usize),
    /// It asks the home, decides, and answers.
    Look(usize),
    Serve(usize),
    Name(usize, usize),
    BeginLook(usize),
    /// It hears the home, or a witness.
    Hear(usize, usize),
    Connect(usize, usize),
    Begin(usize, usize),
    CarryOut(usize),
    CarryOutLate(usize),
    StartChange,
    StartPutBack(usize),
    /// It looks at the home, and does the next step.
    Coordinate,
    /// A coordinator finds that some node is away.
    Fail,
    Crash,
    /// The same once it had sent what it had decided to do.
    CrashLate,
    Replicate(usize),
    Lose(usize),
}

impl World {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let mut shards = [0, 1].map(|_| Server {
            now_ms: 1_000,
            answers: Default::default(),
            change: None,
            layout: None,
            copy: None,
            witnesses: Default::default(),
        });
        (shards[0].layout, shards[0].copy) = (Some(0), Some(0));
        for (slot, shard) in witnesses() {
            shards[shard].witnesses.insert(witness::key(slot), text_of(0));
        }
        let process = |id: usize| Process {
            member: Member::new(id.to_string().as_bytes(), "", Revision::default()),
            holding: false,
            serving_next: None,
            lines: [if id == 1 && bounds.cut_off.is_some() { Line::Closed } else { Line::Used }; 2],
            look: None,
            heard: [false; 3],
            known: 0,
            witnessed: [None, None],
            doubt: None,
        };
        let mut world = Self {
            shards,
            data: [1, 1],
            replicas: [None, None],
            nodes: [0, 1],
            processes: (0..2).map(process).collect(),
            change: None,
            layouts: vec![Layout { epoch: 1, reads: 1, writes: 1, is_put_back: false }],
            flights: Vec::new(),
            late: Vec::new(),
            left: Left {
                requests: bounds.requests,
                looks: [bounds.looks; 2],
                changes: bounds.changes,
                failures: bounds.failures,
                tends: bounds.tends,
                late: bounds.late,
                ticks: (1 << bounds.ticks_ms.len()) - 1,
                losses: (1 << bounds.losses.len()) - 1,
            },
        };
        for index in 0..2 {
            world.look(index, None);
            world.serve(index);
        }
        world
    }

    /// What members and coordinators tell a layout by.
    pub(crate) fn revision(&self, number: u8) -> Revision {
        let epoch = self.layouts[usize::from(number)].epoch;
        Revision { epoch: Epoch(epoch.into()), attempt: Attempt(number.into()) }
    }

    pub(crate) fn epoch_of(&self, text: &[u8]) -> Option<Epoch> {
        Some(self.revision(number_of(text)).epoch)
    }

    /// What the home's register means to a process that served `known` last.
    pub(crate) fn meaning(&self, register: &Register, known: u8) -> Found {
        let Some(number) = in_force(register) else { return Found::Lost };
        let revision = self.revision(number);
        let is_newer = revision.epoch > self.revision(known).epoch;
        if number == known || is_newer { Found::InForce(revision) } else { Found::Lost }
    }

    /// Where members would begin requests, and by which layout.
    pub(crate) fn served(&self) -> impl Iterator<Item = (usize, u8)> {
        self.processes.iter().flat_map(|process| {
            let serving = process.member.serving().filter(|_| !process.holding).map(number);
            let used = (0..2).filter(|shard| process.lines[*shard] == Line::Used);
            used.filter_map(move |shard| Some((shard, serving?)))
        })
    }

    /// All that can happen next.
    pub(crate) fn actions(&self, bounds: &Bounds, actions: &mut Vec<Action>) {
        actions.extend((0..bounds.ticks_ms.len()).filter(|tick| self.left.ticks & (1 << tick) != 0).map(Action::Pass));
        (0..self.processes.len()).for_each(|index| self.member_actions(index, bounds, actions));
        actions.extend((0..self.flights.len()).map(Action::CarryOut));
        actions.extend((0..self.late.len()).map(Action::CarryOutLate));
        self.change_actions(actions);
        for (loss, shard) in bounds.losses.iter().enumerate() {
            if self.left.losses & (1 << loss) != 0 {
                let is_ready = self.replicas[*shard].is_some();
                actions.push(if is_ready { Action::Lose(loss) } else { Action::Replicate(*shard) });
            }
        }
    }

    fn member_actions(&self, index: usize, bounds: &Bounds, actions: &mut Vec<Action>) {
        let process = &self.processes[index];
        let hangs = bounds.hangs && index == 1 && !process.lines.contains(&Line::Used);
        if hangs {
            // Nothing, but for what its tasks of connections do.
        } else if process.serving_next.is_some() {
            actions.push(Action::Serve(index));
        } else {
            actions.push(Action::Look(index));
        }
        if self.left.tends > 0 && !hangs {
            actions.extend(
                (0..2).filter(|which| process.witnessed[*which].is_none()).map(|at| Action::Witness(index, at)),
            );
        }
        for shard in 0..2 {
            match process.lines[shard] {
                Line::Closed if self.may_name(index, shard, bounds) => actions.push(Action::Name(index, shard)),
                Line::Looking if self.is_clear(process) => actions.push(Action::Connect(index, shard)),
                Line::Closed | Line::Named | Line::Looking | Line::Used => {}
            }
            let serves = process.lines[shard] == Line::Used && process.member.serving().is_some() && !process.holding;
            if serves && self.left.requests[index] > 0 {
                actions.push(Action::Begin(index, shard));
            }
        }
        let waits = process.lines.iter().any(|line| matches!(line, Line::Named | Line::Looking));
        let early = bounds.fault == Some(Fault::NamedLate);
        if (waits || early) && self.left.looks[index] > 0 {
            actions.push(Action::BeginLook(index));
        }
        if process.look.is_some() && process.member.serving().is_some() && !self.is_clear(process) {
            actions.extend((0..3).filter(|which| !process.heard[*which]).map(|which| Action::Hear(index, which)));
        }
        if !hangs && self.change.is_none() && self.left.changes > 0 && self.is_lost(index) {
            actions.push(Action::StartPutBack(index));
        }
    }

    /// Whether a member wants a connection. Where one is cut off that one does, and no other.
    fn may_name(&self, index: usize, shard: usize, bounds: &Bounds) -> bool {
        bounds.cut_off.is_none_or(|only| only == shard && index == 1)
    }

    fn is_clear(&self, process: &Process) -> bool {
        process.look.as_ref().is_some_and(|look| look.clearance() == Clearance::Fine)
    }

    /// Whether a member would put back what it served, as it is seen to be lost still.
    fn is_lost(&self, index: usize) -> bool {
        let process = &self.processes[index];
        let mut member = process.member.clone();
        let mut wire = Vec::new();
        member.ask(&mut wire);
        let found = self.meaning(&self.shards[0].register(), process.known);
        member.see(&self.shards[0].ask(&wire), |_| found).expect("a reply that can be read");
        process.member.must_put_back() && member.must_put_back()
    }

    fn change_actions(&self, actions: &mut Vec<Action>) {
        let Some(change) = &self.change else {
            if self.left.changes > 0 && in_force(&self.shards[0].register()).is_some() {
                actions.push(Action::StartChange);
            }
            return;
        };
        actions.push(Action::Coordinate);
        if self.left.failures > 0 {
            actions.push(Action::Crash);
            if !change.is_over {
                actions.push(Action::Fail);
            }
            if self.left.late > 0 {
                actions.push(Action::CrashLate);
            }
        }
    }

    /// The connections that a shard would list.
    pub(crate) fn list(&self, shard: usize) -> Vec<Connection> {
        let is_there = |index: &usize| {
            let is_open = self.processes[*index].lines[shard] != Line::Closed;
            is_open || self.flights.iter().any(|flight| flight.member == *index && flight.shard == shard)
        };
        let connection = |index: usize| Connection {
            node: shard,
            id: i64::try_from(index).expect("few members"),
            owner: Owner::Member(index.to_string().into_bytes()),
            address: String::new(),
        };
        (0..self.processes.len()).filter(is_there).map(connection).collect()
    }
}

/// The layout that a register says is in force.
pub(crate) fn in_force(register: &Register) -> Option<u8> {
    register.layout.as_deref().or(register.copy.as_deref()).map(number_of)
}

/// The layout of such a revision.
pub(crate) fn number(revision: Revision) -> u8 {
    u8::try_from(revision.attempt.0).expect("few layouts")
}
