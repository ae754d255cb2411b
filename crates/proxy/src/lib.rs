//! Sockets around the core: what it takes to put [`keyfold_core`] between clients and a server.
//!
//! ```text
//!             one worker, one thread
//!           ┌───────────────────────────────────────────────┐
//! client ──▶│ connection ─ plan, begin ─▶ outbox ▶ upstream │──▶ server
//! client ◀──│ outbox ◀─── exchange ◀──── queue ◀──── replies │◀──
//!           └───────────────────────────────────────────────┘
//! ```
//! Nothing here knows what folding is: a request goes to the core's [`Session`](keyfold_core::session::Session),
//! replies go to its [`Exchange`](keyfold_core::exchange::Exchange), and this crate moves the bytes. What it
//! keeps:
//!
//! - A client's answers come in the order of its requests, and a reply goes to the request that caused it or
//!   to none: a lost connection takes all that was awaited on it along.
//! - Nothing waits without bound and nothing grows without bound; each bound is an option in [`config`].
//! - A request that was accepted is answered, also while the proxy stops.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`config`], [`address`] | what the proxy can be told |
//! | `proxy`, `start_error`, `shutdown` | its start and its end |
//! | `service_manager` | what systemd is told of it |
//! | `reload` | what of it may be replaced while it runs |
//! | [`admin`], `token` | the operators' address: metrics, health, status, history and a page; what they show |
//! | `observation` | what servers say of their memory and limits, for operators |
//! | `takeover` | a new keyfold takes the sockets of the one that runs |
//! | `doors`, `sockets` | listening sockets, bound here or had from others |
//! | `accepting`, `listen`, `arrival` | accepting, and handing connections to workers |
//! | `worker`, `order` | one thread and what its tasks share; what it is told to do |
//! | `client` | a client: its requests, slots and answers |
//! | `upstream` | connections to the server: shared, own, for errands |
//! | `peers` | whether the other announced keyfolds are there |
//! | `whereabouts` | where the primary is that Sentinels name |
//! | `descriptors` | how many files this process may open |
//! | `folding`, `dictionaries`, `sweep` | the layout in use; what its values are compressed by; removing what has expired |
//! | `eviction`, `holding` | keeping caches within their memory; a lease in the server, as this proxy holds it |
//! | `encoders` | threads that encode large values |
//! | `membership`, `keeper` | this proxy's part in changes of the layout |
//! | `slow` | slow requests, in the log |
//! | `socket`, `inbox`, `outbox`, `tls` | bytes in and out |
//! | `clock`, `nonce`, `backoff`, `stats` | the server's time, unique numbers, waiting, counting |
#![warn(clippy::unwrap_used)]

mod accepting;
pub mod address;
pub mod admin;
mod arrival;
mod backoff;
mod client;
mod clock;
pub mod config;
mod descriptors;
mod dictionaries;
mod doors;
mod encoders;
mod eviction;
mod folding;
mod holding;
mod inbox;
mod keeper;
mod listen;
mod membership;
mod nonce;
mod observation;
mod order;
mod outbox;
mod peers;
mod proxy;
mod reload;
mod service_manager;
mod shutdown;
mod slow;
mod socket;
mod sockets;
mod start_error;
mod stats;
mod sweep;
mod takeover;
pub mod tls;
mod token;
mod upstream;
mod whereabouts;
mod worker;

pub use config::Config;
pub use nonce::Nonces;
pub use order::Task;
pub use proxy::{Handle, ServeError, check, check_addresses, serve, start, start_with};
pub use reload::Reloader;
pub use service_manager::ServiceManager;
pub use shutdown::Stopper;
pub use sockets::Sockets;
pub use start_error::StartError;
pub use stats::Totals;
pub use takeover::TakeoverError;
pub use tls::TlsError;
pub use token::{AdminToken, TokenError};
pub use upstream::{Errand, LinkError};
