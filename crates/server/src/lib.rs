//! Connections to a server for tools: a blocking link, what the server says of itself, its settings and its layout; and
//! servers of keyfold's own.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `commands.rs` | commands that travel together |
//! | `error.rs` | what goes wrong between a question and its answer |
//! | `reply.rs` | what a reply is taken for |
//! | `link.rs` | the blocking connection: TCP, TLS or a unix socket |
//! | `primary.rs` | the primary that Sentinels name |
//! | `info.rs` | what a server says of itself in INFO |
//! | `version.rs` | which server it is, and whether keyfold can stand before it |
//! | `connection.rs` | a connection to such a server, and errors that say what to do |
//! | `node.rs` | one node of a cluster: the way to it, and what it says of the cluster |
//! | `nodes.rs` | the servers that hold a keyspace: one, or the primaries of a cluster |
//! | `census.rs` | what all nodes of a cluster say at one moment, and how far replicas are |
//! | `cluster_nodes.rs` | what a node says of all, and of slots on their way |
//! | `replicas.rs` | the replicas that servers say they have |
//! | `steps.rs` | steps to a cluster's nodes, followed where nodes lead them |
//! | `time.rs` | the server's time |
//! | `operators.rs` | questions to a keyfold's own address for operators, by HTTP |
//! | `behind.rs` | whether what answers is a keyfold, and which server is behind it |
//! | `listpack.rs` | the settings that keep buckets small, and whether they suffice |
//! | `memory.rs` | how a server takes memory, and how much it has taken |
//! | `keyspace.rs` | which databases hold keys |
//! | `uses.rs` | who uses a server and how: asked, not judged |
//! | `pace.rs` | how fast a tool may go |
//! | `priority.rs` | how a tool shares the machine's processors |
//! | `interrupt.rs` | Ctrl-C, for work that has something to put away first |
//! | `own.rs` | a server of keyfold's own |
//! | `own_cluster.rs` | a cluster of such servers |
//! | `supervisor.rs` | what sees to it that such a server never outlives keyfold |
//! | `secrets.rs` | the secrets that namespaces may be keyed by, from the files that were given |
//! | `layout` | the layout that a server holds, and how another is put in force |
//!
//! Errors are anyhow's, as in the program: whoever uses this shows them to a person, with what was being done.
#![forbid(unsafe_code)]

mod behind;
pub mod census;
pub mod cluster_nodes;
pub mod commands;
pub mod connection;
pub mod error;
pub mod info;
pub mod interrupt;
pub mod keyspace;
pub mod layout;
mod link;
pub mod listpack;
pub mod memory;
mod node;
pub mod nodes;
pub mod operators;
pub mod own;
pub mod own_cluster;
pub mod pace;
mod primary;
pub mod priority;
pub mod replicas;
pub mod reply;
pub mod secrets;
pub mod steps;
pub mod supervisor;
pub mod time;
pub mod uses;
pub mod version;

pub use commands::Commands;
pub use connection::{Server, Target, is_not_ready};
pub use error::LinkError;
pub use info::Info;
pub use nodes::Nodes;
pub use operators::{Operators, OperatorsAddress};
pub use own::OwnServer;
pub use own_cluster::OwnCluster;
pub use steps::Steps;
pub use time::ServerTime;
