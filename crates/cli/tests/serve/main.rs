//! `keyfold serve` as a process, before real servers.
#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking")]

mod keyfold;
mod layout;
mod own_server;
