//! Connections to a server, its settings, and a server of keyfold's own.

pub(crate) mod connection;
pub(crate) mod listpack;
pub(crate) mod memory;
pub(crate) mod own;
pub(crate) mod pace;
pub(crate) mod pipelined;
pub(crate) mod reply;
pub(crate) mod supervisor;
mod time;
pub(crate) mod version;

pub(crate) use connection::{Server, Target, is_not_ready};
pub(crate) use own::OwnServer;
pub(crate) use pipelined::Pipelined;
pub(crate) use time::{ServerTime, read_ms};
