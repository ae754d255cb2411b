//! A layout's change while clients go on: the register, the barrier, and who may serve what.
//!
//! Every proxy is a *member*. A *coordinator* changes the layout: it announces the change, waits until all members have
//! stopped, and only then replaces the layout; the members go on by the new one. Clients wait for some milliseconds.
//!
//! ```text
//! keyfold:{home}:layout, keyfold:{home}:layout:copy  (strings)  the register: the layout in force, twice
//! keyfold:{home}:change    (string)  "{change} {attempt} prepare|hold {to_epoch}", gone when its time is over
//! keyfold:{home}:answers   (hash)    member ─▶ "ready|held|serving {change} {attempt} {who}", gone with the change
//!
//! coordinator   prepare ─────────▶ hold ─────────────────▶ layout replaced, announcement gone
//!                  │ who is there?   │ who is there?  ▲          │
//! member        ───┴─▶ ready ────────┴─▶ held ────────┘──────────┴─▶ serves the new epoch
//!           (asks every second) (every few ms) (begins no request)
//! ```
//!
//! **Connections are the leases.** What makes a change safe is that no request of the old epoch can still be carried
//! out. A connection that the server has closed sends nothing more, and one that is new must look first. So a member
//! needs no lease that it would have to renew: it serves as long as it knows of no change, also where the server takes
//! no writes, is busy, or doesn't answer on some connection. What holds, whoever dies, hangs or comes late
//! (`crates/core/tests/move_model` tries every order of steps):
//!
//! - **No two epochs are served at once.** The layout is replaced by one atomic step that also checks that the
//!   announcement still stands, and that every member with a connection has said *held*, by the very words that the
//!   coordinator has read. A member goes on by the old epoch only after it has taken *held* back, by an atomic step.
//! - **Who doesn't answer is shut out.** Its connections are named for it from their first command on, so the server's
//!   own list of them is complete; they are closed, and the list is read once more. A connection that is new is used
//!   only after it was named and then, on itself, has seen the register by which its process serves and no *hold*: one
//!   that was named too late for the list looks too late to miss the announcement. A request whose connection broke is
//!   under way until the server has closed that connection.
//! - **Keys that are lost change nothing.** Where the announcement or answers are lost the atomic step fails, and it
//!   begins anew. Where the register is lost or was set back, members know better, and put back what they served
//!   (`crates/core/src/layout/recovery.rs`), by the same barrier.
//! - **A pause whose coordinator died ends by itself**: the members' patience is short, and the announcement's
//!   time too.
//!
//! Both sides are pure: a view of the keys goes in, a decision comes out. Time comes from the server.

mod clearance;
mod connections;
mod coordinator;
mod member;
mod register;
mod sight;
pub mod witness;
mod words;

pub use clearance::{Clearance, Look};
pub use connections::{Connection, Owner, WRITER_NAME, member_name};
pub use coordinator::{Coordinator, Course, Obstacle};
pub use member::{Act, Found, Member};
pub use register::{Register, Standing};
pub use words::{Announcement, Answer, ChangeAttempt, Phase, Stance};

/// How long members have to say that they are ready: they look once a second.
pub const READY_MS: i64 = 2_500;
/// How long an announcement of *prepare* lasts whose coordinator is gone.
pub const PREPARED_MS: i64 = 5_000;
/// How long one of *hold* does: so long new connections wait.
pub const HELD_MS: i64 = 1_500;
/// How long a coordinator lets members hold their clients back before it lets them go and tries again; the later tries are
/// longer ([`ChangeAttempt::hold_ms`]).
pub const HOLD_MS: i64 = 150;
/// How long a member holds its clients back at most, where the coordinator's tries are the first ones
/// ([`ChangeAttempt::patience_ms`]).
pub const PATIENCE_MS: i64 = 220;
