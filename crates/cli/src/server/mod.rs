//! Connections to a server, its settings, and a server of keyfold's own.

pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod error;
pub(crate) mod info;
mod link;
pub(crate) mod listpack;
pub(crate) mod memory;
pub(crate) mod own;
pub(crate) mod pace;
pub(crate) mod reply;
pub(crate) mod supervisor;
pub(crate) mod time;
pub(crate) mod version;

pub(crate) use commands::Commands;
pub(crate) use connection::{Server, Target, is_not_ready};
pub(crate) use error::LinkError;
pub(crate) use info::Info;
pub(crate) use own::OwnServer;
pub(crate) use time::ServerTime;
