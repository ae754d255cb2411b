//! The operators' address: metrics, health, status and a page to watch, over HTTP.
//!
//! ```text
//! operator ──▶ server ──▶ routes ──┬─▶ format ──────┐
//!              bounds      token   ├─▶ health ──────┼──▶ sources: what workers have counted and said of themselves
//!                                  ├─▶ status ──────┤
//!                                  ├─▶ history ─────┘    a sample of the status every ten seconds, of the last hour
//!                                  └─▶ page              asks for status and history itself
//! ```
//! - It runs on a thread of its own and reads what is there already: no worker waits for it, or does anything because
//!   somebody asks.
//! - Whoever asks slowly, much or wrongly takes nothing but his own connection's place, and that for a bounded time.
//! - No answer holds a key or a value; metrics hold no name of a bucket either. What metrics are told apart by is bounded:
//!   commands by the table of those that servers have, namespaces by the layout, nodes by their number.
//! - Beyond this machine nobody is let in who shows nothing: a token, or a certificate.

mod accept;
mod catalog;
mod collector;
mod exposition;
mod format;
mod health;
mod history;
mod page;
mod protobuf;
mod routes;
mod series;
mod server;
mod sources;
mod status;

pub use health::{Health, Trouble};
pub(crate) use health::{liveness, readiness};
pub use history::{History, Sample};
pub(crate) use routes::{Entrance, Routes};
pub(crate) use server::run;
pub(crate) use sources::Sources;
pub use status::{ClientsStatus, ClusterStatus, FullStatus, ServerStatus};
