//! Where keys are looked at: a live server, or a dump of one.
//!
//! ```text
//! place ──▶ open ─┬─▶ server: SCAN, and questions ─┐
//!                 └─▶ dump: a file, read as it is ─┴─▶ Seen: observations, page by page ──▶ families, advice, layout
//! ```
//! Whatever comes behind the observations knows nothing of where they are from. What only a server tells is guessed of a
//! dump, and what was guessed is said ([`Known`]).
//!
//! | file | what it holds |
//! | --- | --- |
//! | `place.rs` | what was named: a server or a dump |
//! | `seen.rs` | what both give |
//! | `server.rs` | a live server, or the nodes of a cluster |
//! | `dump` | a file, or standard input |
//! | `open.rs` | from the place to whoever looks there |

mod dump;
mod open;
mod place;
mod seen;
mod server;

pub(crate) use open::open;
pub(crate) use place::{ClusterMode, DumpPlace, Place};
pub(crate) use seen::{DumpHead, Known, Node, Origin, Seen};
