//! One node of a cluster: the way to it, and what it says of the cluster.

use anyhow::{anyhow, bail};
use keyfold_core::cluster::{Endpoint, Topology};
use keyfold_proxy::address::{Route, ServerAddress};

use crate::connection::{Server, Target};

/// Where a node that was connected to takes clients.
pub(crate) fn own_endpoint(server: &Server) -> Endpoint {
    match &server.address().route {
        Route::Tcp { host, port, .. } => Endpoint { host: host.clone(), port: *port },
        // A server's own address is none of Sentinels, and none of several nodes.
        Route::Unix(_) | Route::Sentinel { .. } | Route::Cluster { .. } => {
            Endpoint { host: "127.0.0.1".to_owned(), port: 0 }
        }
    }
}

/// What a node says of its cluster.
///
/// # Errors
/// It is none of a cluster, or takes its cluster to be down.
pub(crate) fn ask(server: &mut Server, target: &Target) -> anyhow::Result<Topology> {
    let mut wire = Vec::new();
    let replies = Topology::ask(&mut wire);
    let replies = server.exchange(&wire, replies)?;
    let asked = own_endpoint(server);
    let topology = Topology::read(&replies, &asked, &target.addresses);
    let topology = topology.map_err(|error| anyhow!("the cluster node at {}: {error}", server.address()))?;
    if !topology.is_ok {
        bail!(
            "the node at {} says that its cluster is down; `redis-cli --cluster check` says what is wrong with it",
            server.address()
        );
    }
    Ok(topology)
}

/// The same way in to another node.
pub(crate) fn at(address: &ServerAddress, endpoint: &Endpoint) -> ServerAddress {
    let route = Route::Tcp { host: endpoint.host.clone(), port: endpoint.port, tls: address.speaks_tls() };
    ServerAddress { route, ..address.clone() }
}
