//! Commands over the whole keyspace of a real cluster, and what clients are told of clusters, by the core's own
//! conversations and router over blocking connections.

mod clients;
mod driver;
mod keyspace;
mod scan;

use driver::Driver;
use keyfold_testkit::servers::{each, found, found_with_redis_7};
