//! What a Redis or Valkey Cluster is to clients: 16,384 slots, each served by one primary.
//!
//! - [`Slot`](crate::slot::Slot): which slot a key is in, and a short tag that puts any other key in the same one.
//! - [`Endpoint`], [`AddressMap`]: where nodes take clients.
//! - [`Redirect`]: what a node answers that doesn't carry a command out.
//! - [`Target`]: which nodes a request concerns, and what their answers come to.
//! - [`Flight`]: the commands of one step, which may be led elsewhere on their way; [`Direct`]: one that was not so far.
//! - [`Router`]: where each step goes, and what becomes of those that nodes won't carry out.
//! - [`Turns`]: in which order steps of one slot go out while its node changes.
//! - [`Topology`]: what one node says of the cluster; [`roster()`], [`endpoints()`]: all its nodes, those without slots included.
//! - [`Announced`]: keyfolds as the nodes of a cluster, for clients that know clusters.
//! - [`Position`]: how far a walk over all slots is, as a client's cursor says it.
//! - [`Witness`]: what a node says of itself at the moment of a step.
//! - [`Replicas`]: which replicas may be read from, by what nodes say of their [`Replication`].
//! - [`Written`]: where a client has written.
//! - [`Picture`]: what all nodes say of the cluster at one moment; [`proof`]: what a walk over all primaries proves.
//! - [`SlotMap`]: which node has which slot, as far as is known; [`Refresh`]: when nodes are asked for it.

mod announce;
mod cursor;
mod endpoint;
mod flight;
mod map;
mod proof;
mod redirect;
mod refresh;
mod replicas;
mod replication;
mod roster;
mod router;
mod target;
mod topology;
mod turns;
mod witness;
mod written;

pub use announce::{AnnounceError, Announced, Front};
pub use cursor::{Phase, Position, Tag};
pub use endpoint::{AddressMap, Endpoint, NoEndpoint, NoMapping};
pub use flight::{Direct, Flight, Landed, Outcome};
pub use map::{Adoption, AskedAt, Node, SlotMap};
pub use proof::{Doubt, History, Picture, PictureNode, Walked, proof};
pub use redirect::{Redirect, Redirects, Whereto};
pub use refresh::{Asked, Refresh};
pub use replicas::{ReadFrom, ReplicaState, Replicas, ReplicationAsked};
pub use replication::Replication;
pub use roster::{endpoints, roster};
pub use router::{Alone, Order, Router, Step, Tries};
pub use target::{Part, Target, merge};
pub use topology::{Range, Topology, TopologyError};
pub use turns::{Round, Turns};
pub use witness::{Move, Role, Witness};
pub use written::Written;
