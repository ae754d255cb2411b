//! One key: what the commands do to it, and how exchanges and the mover read and write the places where it may lie.

use crate::bounds::{Fault, Place, Route};

/// What lies in a place. The time of keys passes by ticks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stored {
    pub(crate) value: u8,
    pub(crate) expires_at: Option<u8>,
}

/// What a key holds.
pub(crate) type Held = Option<Stored>;

/// What an expired value reads as.
pub(crate) fn alive(held: Held, now: u8) -> Held {
    held.filter(|stored| stored.expires_at.is_none_or(|at| at > now))
}

/// A client's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Op {
    Get,
    Set(u8),
    SetNx(u8),
    Incr,
    Del,
    /// The key expires at this tick.
    Expire(u8),
}

/// The answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    Held(Option<u8>),
    Did(bool),
}

impl Op {
    /// What it makes of a key that a plain server holds.
    pub(crate) fn run(self, held: Held, now: u8) -> (Held, Answer) {
        let held = alive(held, now);
        let bare = |value| Some(Stored { value, expires_at: None });
        match (self, held) {
            (Self::Get, _) => (held, Answer::Held(held.map(|stored| stored.value))),
            (Self::Set(value), _) => (bare(value), Answer::Did(true)),
            (Self::SetNx(value), None) => (bare(value), Answer::Did(true)),
            (Self::Incr, None) => (bare(1), Answer::Held(Some(1))),
            (Self::Incr, Some(stored)) => {
                let value = stored.value + 1;
                (Some(Stored { value, ..stored }), Answer::Held(Some(value)))
            }
            (Self::Del, Some(_)) => (None, Answer::Did(true)),
            (Self::Expire(at), Some(stored)) => {
                (alive(Some(Stored { expires_at: Some(at), ..stored }), now), Answer::Did(true))
            }
            (Self::SetNx(_) | Self::Del | Self::Expire(_), _) => (held, Answer::Did(false)),
        }
    }
}

/// What is to be written where both places still hold what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Plan {
    /// What the new place held, and the old one.
    seen: [Held; 2],
    /// When what was read alive expires.
    alive_until: Option<u8>,
    after: Held,
    answer: Answer,
}

/// A step that was sent to the server and has not been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// One command does it all.
    Native(Op),
    Read(Op),
    Write(Op, Plan),
    MoverRead,
    MoverWrite(Plan),
}

/// What comes after a step.
pub(crate) enum After {
    Next(Step),
    Answer(Answer),
    /// The mover has seen that the old place is empty, or made it so.
    Moved,
    /// The mover leaves the key where it is.
    Left,
}

impl Step {
    /// The first step of a command. A plain key that isn't being moved has every command of the server's.
    pub(crate) fn first(op: Op, route: &Route) -> Self {
        let whole = matches!(op, Op::Get | Op::Set(_) | Op::Del);
        if route.old.is_none() && (route.new == Place::Plain || whole) { Self::Native(op) } else { Self::Read(op) }
    }

    /// Carries it out, in one moment.
    pub(crate) fn carry_out(self, places: &mut [Held; 3], route: &Route, now: u8, fault: Option<Fault>) -> After {
        let new = route.new as usize;
        let old = route.old.map(|old| old as usize);
        let seen = [places[new], old.and_then(|old| places[old])];
        match self {
            Self::Native(op) => {
                let (after, answer) = op.run(places[new], now);
                places[new] = after;
                After::Answer(answer)
            }
            Self::Read(op) => {
                let found = seen[0].or(seen[1]);
                let (after, answer) = op.run(found, now);
                if after == alive(found, now) {
                    return After::Answer(answer);
                }
                After::Next(Self::Write(op, Plan { seen, alive_until: alive_until(seen, now), after, answer }))
            }
            Self::Write(op, plan) => {
                if !plan.holds(seen, now, fault) {
                    return After::Next(Self::Read(op));
                }
                places[new] = plan.after;
                if let Some(old) = old
                    && !(fault == Some(Fault::HalfDelete) && op == Op::Del)
                {
                    places[old] = None;
                }
                After::Answer(plan.answer)
            }
            Self::MoverRead => match seen {
                [_, None] => After::Moved,
                [Some(_), Some(_)] => After::Left,
                // What has expired when it is written has expired where it comes to lie.
                [None, found] => After::Next(Self::MoverWrite(Plan {
                    seen,
                    alive_until: None,
                    after: alive(found, now),
                    answer: Answer::Did(true),
                })),
            },
            Self::MoverWrite(plan) => {
                let blind = fault == Some(Fault::BlindMover) && seen[0].is_none();
                if !blind && !plan.holds(seen, now, fault) {
                    return After::Next(Self::MoverRead);
                }
                places[new] = if route.new == Place::Plain { alive(plan.after, now) } else { plan.after };
                if let Some(old) = old {
                    places[old] = None;
                }
                After::Moved
            }
        }
    }
}

impl Plan {
    fn holds(&self, seen: [Held; 2], now: u8, fault: Option<Fault>) -> bool {
        let in_time = fault == Some(Fault::LateWrite) || self.alive_until.is_none_or(|at| at > now);
        self.seen == seen && in_time
    }
}

fn alive_until(seen: [Held; 2], now: u8) -> Option<u8> {
    seen.into_iter().filter_map(|held| alive(held, now)?.expires_at).min()
}
