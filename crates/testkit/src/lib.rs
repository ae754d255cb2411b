//! Real servers for tests, generators and the conformance driver.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`servers`] | every Redis and Valkey that this machine has |
//! | [`server`] | one of them, started on a free port for as long as a test needs it |
//! | [`model`] | a fake server and a naive model: folding compared without any server |
//! | [`wire`] | a blocking connection that hands out replies byte for byte |
//! | [`reply`] | where a reply ends, and what it says |
pub mod model;
pub mod reply;
pub mod server;
pub mod servers;
pub mod wire;

pub use reply::{Scanner, Value};
pub use server::Server;
pub use servers::{Binary, Flavor, Version, found};
pub use wire::Wire;
