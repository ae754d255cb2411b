//! `keyfold serve` as a process, before real servers.

mod keyfold;
mod layout;
mod own_server;
