//! What a run of the model tries, and what is broken in it on purpose.

use crate::keys::{Held, Op};

/// Where the key may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A key of its own: the server expires it.
    Plain,
    /// A bucket's field: an expired value stays until somebody writes.
    Bucket,
    /// Another bucket's.
    OtherBucket,
}

/// The places by one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) new: Place,
    pub(crate) old: Option<Place>,
}

const fn settled(new: Place) -> Route {
    Route { new, old: None }
}

const fn moving(old: Place, new: Place) -> Route {
    Route { new, old: Some(old) }
}

/// Plain keys begin to be folded.
pub(crate) const BEGIN: &[Route] = &[settled(Place::Plain), moving(Place::Plain, Place::Bucket)];
/// Plain keys are folded.
pub(crate) const FOLD: &[Route] = &[settled(Place::Plain), moving(Place::Plain, Place::Bucket), settled(Place::Bucket)];
/// Folded keys become plain.
pub(crate) const UNFOLD: &[Route] =
    &[settled(Place::Bucket), moving(Place::Bucket, Place::Plain), settled(Place::Plain)];
/// Folded keys go to other buckets.
pub(crate) const REFOLD: &[Route] =
    &[settled(Place::Bucket), moving(Place::Bucket, Place::OtherBucket), settled(Place::OtherBucket)];
/// A fold is turned round before it has ended.
pub(crate) const TURN: &[Route] = &[
    settled(Place::Plain),
    moving(Place::Plain, Place::Bucket),
    moving(Place::Bucket, Place::Plain),
    settled(Place::Plain),
];

/// What keyfold keeps for itself, taken away or put back to what it was, by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Both halves of the register.
    Register,
    /// One of them.
    Copy,
    /// Both say again what was in force before.
    SetBack,
    Announcement,
    Answers,
    /// A replica takes the server's place, with all that it held at some moment before: keys, register, announcement
    /// and answers. What was under way is gone with the connections.
    FailOver,
}

/// A rule of the protocol that isn't kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connections of who doesn't answer stay open.
    NoFence,
    /// Who is there is asked before *hold* is announced, and not after.
    EarlyList,
    /// A member uses new connections without having looked on them.
    UncheckedConnections,
    /// Who has walked over all keys settles the move on another connection than that of the walk.
    KeptWalk,
    /// A request whose connection broke doesn't count as under way, although the server may still carry it out.
    ForgottenConnections,
    /// A member goes on as it saw the layout, without the atomic step.
    BlindResume,
    /// The layout is replaced without a look at the answers.
    BlindChange,
    /// A member whose layout was set back goes by what is there.
    ObeysTheOlder,
    /// What was lost is put back although a member that may know a newer layout doesn't answer.
    PassesOver,
    /// The mover doesn't look whether the old place still holds what it read.
    BlindMover,
    /// The mover is no member's: nobody waits for its steps when the layout is replaced.
    FreeMover,
    /// DEL removes what is in the new place only.
    HalfDelete,
    /// A value that has expired since it was read is written back.
    LateWrite,
}

/// How much there is of everything.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) route: &'static [Route],
    pub(crate) held: Held,
    /// Members, each with the clients whose number it divides evenly.
    pub(crate) members: usize,
    /// The last of them comes only while the change is under way.
    pub(crate) joins: bool,
    /// How many commands each client sends, and which they may be.
    pub(crate) commands: [u8; 2],
    pub(crate) ops: &'static [&'static [Op]; 2],
    /// How many ticks the key lives through.
    pub(crate) key_ticks: u8,
    /// How the coordinators' and members' time passes, in milliseconds: each once, in any order.
    pub(crate) ticks_ms: &'static [i64],
    /// How many coordinators are started.
    pub(crate) changes: u8,
    pub(crate) mover_crashes: u8,
    pub(crate) member_crashes: u8,
    /// How many connections break of themselves.
    pub(crate) breaks: u8,
    /// How many of the members' and coordinators' steps come late, when nobody waits for them any more.
    pub(crate) late: u8,
    /// How often a member goes on because its requests take too long.
    pub(crate) go_ons: u8,
    /// What is lost, each once, in any order.
    pub(crate) losses: &'static [Loss],
    pub(crate) fault: Option<Fault>,
}
