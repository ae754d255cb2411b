//! The replicas that servers say they have. Each may be a primary at any moment, with settings of its own.

use std::thread;
use std::time::Duration;

use anyhow::Context;
use keyfold_core::cluster::Endpoint;
use keyfold_proxy::address::ServerAddress;

use crate::connection::{Server, Target};
use crate::node::at;
use crate::nodes::{Nodes, read_nodes};

/// For each step of the way there, and for each answer. Whoever asks replicas can do without.
const WITHIN: Duration = Duration::from_secs(2);

/// A replica.
pub struct Replica {
    /// The way to it.
    pub target: Target,
    /// Its primary, as that one's connection names it.
    pub of: String,
    /// A connection, or why there is none.
    pub server: anyhow::Result<Server>,
}

/// Connects to all replicas that the servers say they have, all at once.
///
/// # Errors
/// A server doesn't say.
pub fn connect(nodes: &mut Nodes) -> anyhow::Result<Vec<Replica>> {
    let target = nodes.target().clone();
    let found = match nodes.are_cluster() {
        true => of_cluster(nodes, &target)?,
        false => of_one(nodes.first(), &target)?,
    };
    let open = |(of, endpoint): (ServerAddress, Endpoint)| {
        let target = Target { address: at(&target.address, &endpoint), ..target.clone() };
        let server = Server::connect_to_node_within(&target, WITHIN);
        Replica { target, of: of.to_string(), server }
    };
    Ok(thread::scope(|scope| {
        let opening: Vec<_> = found.into_iter().map(|replica| scope.spawn(|| open(replica))).collect();
        opening.into_iter().filter_map(|replica| replica.join().ok()).collect()
    }))
}

/// Primaries, and where a replica of each is.
fn of_cluster(nodes: &mut Nodes, target: &Target) -> anyhow::Result<Vec<(ServerAddress, Endpoint)>> {
    let all = read_nodes(nodes.first(), target)?;
    let primary = |id: &str| all.iter().find(|node| node.id == id).map(|node| at(&target.address, &node.endpoint));
    let replicas = all.iter().filter(|node| !node.is_primary && !node.is_failing);
    Ok(replicas.filter_map(|node| Some((primary(node.follows.as_ref()?)?, node.endpoint.clone()))).collect())
}

fn of_one(server: &mut Server, target: &Target) -> anyhow::Result<Vec<(ServerAddress, Endpoint)>> {
    let info = server.info("replication").context("can't ask for replicas")?;
    let of = server.address().clone();
    let endpoints = info.text().lines().filter_map(read_line);
    Ok(endpoints.map(|endpoint| (of.clone(), target.addresses.find(endpoint))).collect())
}

/// `slave0:ip=10.0.0.2,port=6379,state=online,offset=…`
fn read_line(line: &str) -> Option<Endpoint> {
    let (number, fields) = line.trim_end().strip_prefix("slave")?.split_once(':')?;
    number.parse::<u32>().ok()?;
    let field = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Endpoint { host: field("ip")?.to_owned(), port: field("port")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_replicas_are_told_from_others() {
        let line = "slave0:ip=::1,port=7001,state=online,offset=14,lag=0,type=replica\r";
        assert_eq!(read_line(line).unwrap().to_string(), "[::1]:7001");
        for other in ["role:master", "slave_read_only:1", "slaves_waiting_psync:0", "slave0:ip=a,state=online"] {
            assert_eq!(read_line(other), None, "{other}");
        }
    }
}
