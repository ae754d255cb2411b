//! Real servers for tests, generators and the conformance driver.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`servers`] | every Redis and Valkey that this machine has |
//! | [`server`] | one of them, started on a free port for as long as a test needs it |
//! | [`cluster`] | several of them as a cluster: resharded, failed over, frozen, partitioned |
//! | [`sentinel`] | a primary, its replicas, and Sentinels that watch them |
//! | [`relay`] | a forwarder that can lose the network |
//! | [`ports`] | free ports for servers that come back |
//! | [`patience`] | waiting for what servers agree on between themselves |
//! | [`tls`] | certificates, and servers that speak TLS alone |
//! | [`subject`] | the `keyfold` program in front of one of them |
//! | [`wire`] | a blocking connection that hands out replies byte for byte |
//! | [`reply`] | where a reply ends, and what it says |
//! | [`sides`] | a plain server and a subject, asked the same |
//! | [`compare`] | when their replies are the same answer |
//! | [`conformance`] | scripted conversations of every command, run on both |
//! | [`differential`] | random ones, shrunk where they differ |
//! | [`model`] | a fake server and a naive model: folding compared without any server |
//! | [`coded`] | layouts whose codecs are trained by records at hand |
//! | [`load`] | clients that know what every answer must be, whatever dies meanwhile |
//! | [`memory`] | the core's memory model against real servers |
//! | [`journal`] | what long work came to, kept as it goes |
//! | [`random`] | choices that a seed repeats |
pub mod cluster;
pub mod coded;
pub mod compare;
pub mod conformance;
pub mod differential;
#[cfg(feature = "bench")]
pub mod journal;
pub mod load;
pub mod memory;
pub mod model;
pub mod patience;
pub mod ports;
pub mod random;
pub mod relay;
pub mod reply;
pub mod sentinel;
pub mod server;
pub mod servers;
pub mod sides;
pub mod subject;
pub mod tls;
pub mod wire;

pub use cluster::Cluster;
pub use reply::{Scanner, Value};
pub use sentinel::Sentinels;
pub use server::Server;
pub use servers::{Binary, Flavor, Version, found, found_with_redis_7, newest};
pub use sides::Sides;
pub use subject::Subject;
pub use tls::Certificates;
pub use wire::Wire;
