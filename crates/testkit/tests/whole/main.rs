//! keyfold as a whole beside real servers: its answers, its users, its promises of memory, a client of its own
//! language, and the tools of these tests themselves.

mod access;
mod before_cluster;
#[cfg(feature = "bench")]
mod chaos;
mod command_keys;
mod every_order;
#[cfg(feature = "bench")]
mod families;
mod functions;
mod many_members;
#[cfg(feature = "bench")]
mod memory_model;
mod moved_by_server;
#[cfg(feature = "bench")]
mod plan_promise;
mod proxy;
mod redis_rs;
mod redis_rs_cluster;
mod round_trips;
mod scripts;
mod self_check;
mod servers;
