//! The server that the flags name.

use std::sync::Arc;

use keyfold_core::cluster::AddressMap;
use keyfold_proxy::address::{Route, ServerAddress};
use keyfold_proxy::config::ServerTls;
use keyfold_server::Target;

use crate::flags::upstream::{LOCAL_PORT, UpstreamFlags, WayFlags};

/// The server that is named, or the one on this machine.
pub(crate) fn resolve(flags: &UpstreamFlags) -> Target {
    let local = || {
        let route = Route::Tcp { host: "127.0.0.1".to_owned(), port: LOCAL_PORT, tls: false };
        ServerAddress { route, user: None, password: None, database: 0 }
    };
    at(flags.address.clone().unwrap_or_else(local), flags.way.clone())
}

/// The server at this address.
pub(crate) fn at(address: ServerAddress, way: WayFlags) -> Target {
    let WayFlags { map_address, upstream_ca, upstream_cert, upstream_key, upstream_insecure } = way;
    let tls = ServerTls { ca: upstream_ca, identity: upstream_cert.zip(upstream_key), insecure: upstream_insecure };
    let mut addresses = AddressMap::default();
    for mapping in map_address {
        // What the flag takes is one that can be added.
        let _ = addresses.add(&mapping);
    }
    Target { address, tls, addresses: Arc::new(addresses) }
}
