//! `keyfold serve` as a process, before real servers.

mod cluster;
mod configuration;
mod keyed;
pub(crate) mod keyfold;
mod layout;
mod operators;
mod own_port;
mod own_server;
mod replica_limits;
mod restart;
mod sentinels;
mod service_manager;
mod slow;
mod tls;
mod unready;
mod users;
