//! The server that the flags name.

use keyfold_proxy::address::ServerAddress;
use keyfold_proxy::config::ServerTls;

use crate::flags::upstream::UpstreamTlsFlags;
use crate::server::Target;

pub(crate) fn resolve(address: ServerAddress, tls: UpstreamTlsFlags) -> Target {
    let UpstreamTlsFlags { upstream_ca, upstream_cert, upstream_key, upstream_insecure } = tls;
    let tls = ServerTls { ca: upstream_ca, identity: upstream_cert.zip(upstream_key), insecure: upstream_insecure };
    Target { address, tls }
}
