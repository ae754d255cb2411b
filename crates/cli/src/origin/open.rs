//! From a place to whoever looks there.

use super::dump::DumpOrigin;
use super::place::{ClusterMode, Place};
use super::seen::Origin;
use super::server::ServerOrigin;
use crate::scan::{Databases, KeyScan};

/// Connects to the server, or begins to read the dump. What the server's settings are is `assumed` where it doesn't say.
pub(crate) fn open(
    place: &Place,
    databases: &Databases,
    scan: &KeyScan,
    assumed: &[(String, u64)],
    cluster: ClusterMode,
) -> anyhow::Result<Box<dyn Origin>> {
    Ok(match place {
        Place::Server(target) => Box::new(ServerOrigin::open(target, databases, assumed)?),
        Place::Dump(place) => Box::new(DumpOrigin::open(place, databases, scan, assumed, cluster)?),
    })
}
