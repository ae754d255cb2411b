//! A layout's change while clients go on: leases, the barrier, and who may serve what.
//!
//! Every proxy is a *member*, and so is whoever runs a mover: it holds a lease in the server that says which epoch
//! it serves. A *coordinator* changes the layout. It announces the change, waits until all members have stopped,
//! and only then replaces the layout; the members go on by the new one. Clients wait for some milliseconds.
//!
//! ```text
//! keyfold:leases  (hash)     member ─▶ "{epoch} using|ready|held {change} {attempt} {until_ms} {who}"
//!                            evicted:{member} ─▶ "{change} {lease}" until its connections are closed
//! keyfold:change  (string)   "{change} {attempt} prepare|hold {to_epoch}", gone when its time is over
//! keyfold:layout  (string)   the layout in force
//!
//! coordinator   prepare ─────────▶ hold ──────────────▶ layout replaced, announcement gone
//!                  │                 │       ▲                 │
//! member    using ─┴─▶ ready ────────┴─▶ held┘─────────────────┴─▶ using the new epoch
//!           (asks every second) (every few ms) (begins no request)
//! ```
//!
//! What holds, whoever dies, hangs or comes late (`crates/core/tests/move_model` tries every order of steps):
//!
//! - **No two epochs are served at once.** The layout is replaced by one atomic step that also checks that every
//!   lease says *held*, by the very words that the coordinator has read. A member goes on by the old epoch only
//!   after it has taken *held* back, by an atomic step that also checks that the layout is still the old one.
//! - **A member without a lease serves nothing.** One that isn't heard of for the time of its lease is evicted:
//!   its lease is replaced by a mark, its connections are closed by the server, so that nothing it sent before can
//!   still be carried out, and only then the mark is removed. While there are marks no layout is replaced, and the
//!   next coordinator takes up what a dead one left. To come back a member must register, by an atomic step that
//!   checks the layout it goes by; it uses a new connection only after it has named it and then seen its lease in
//!   the server; and a request whose connection broke is under way until the server has closed that connection.
//! - **A pause whose coordinator died ends by itself**: the members' patience is short, and the announcement's
//!   time too.
//!
//! Both sides are pure: a view of the three keys goes in, a decision comes out. Time comes from the server.

mod coordinator;
mod member;
mod register;
mod sight;
mod words;

pub use coordinator::{Coordinator, Course, Obstacle};
pub use member::{Act, Member};
pub use register::{COPY_KEY, Register, Standing};
pub use words::{Announcement, Attempt, Lease, LeaseView, Phase, Stance};

/// The hash of the members' leases, in database 0.
pub const LEASES_KEY: &[u8] = b"keyfold:leases";
/// The announcement of a change, in database 0.
pub const CHANGE_KEY: &[u8] = b"keyfold:change";

/// How long a lease holds, in milliseconds of the server's clock.
pub const LEASE_MS: i64 = 5_000;
/// How long an announcement lasts whose coordinator is gone.
pub const ANNOUNCED_MS: i64 = 3_000;
/// How long a coordinator lets members hold their clients back before it lets them go and tries again.
pub const HOLD_MS: i64 = 150;
/// How long a member holds its clients back at most.
pub const PATIENCE_MS: i64 = 220;
