//! Brings a layout's file to a server or a cluster, or finds the layout that is there.
//!
//! A namespace that is new there is folded like any other, though it has no keys yet: between the look that finds
//! none and the moment its layout is in force clients may write some, which are moved then.
//!
//! ```text
//! no keys of it? ─▶ in force, moving from plain ─▶ walk: what was written meanwhile is moved ─▶ settled
//! ```

pub(crate) mod cluster;
mod one;
mod outcome;
mod write;

use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_proxy::address::Route;
use keyfold_server::{Nodes, Server, Target, listpack};

use super::KeyCheck;
pub(crate) use outcome::Rollout;

/// The layout of a server or a cluster, with `file` brought to it if there is one, and connections to all that are there.
/// Nothing is written unless all is well. A server that loads its data or runs a script is waited for.
pub(crate) fn bring(target: &Target, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<(Nodes, Rollout)> {
    let is_cluster = match &target.address.route {
        Route::Cluster { .. } => true,
        // One that can't be asked is taken for a server, which then says why.
        _ => Server::connect_to_node(target).is_ok_and(|server| server.version().is_cluster()),
    };
    if is_cluster {
        return cluster::bring(target, file, check);
    }
    one::bring(target, file, check)
}

/// Each setting that falls short, of a cluster with its node, and of replicas with theirs. Asked on connections of its own:
/// those that brought a layout are closed where somebody else changes it.
pub(crate) fn shortfalls(nodes: &Nodes, layout: &Layout, assumed: &[(String, u64)]) -> Vec<String> {
    let found = Nodes::connect_to_those_there(nodes.target()).and_then(|mut nodes| {
        let is_cluster = nodes.are_cluster();
        let of_each = nodes.servers().iter_mut().flat_map(|server| {
            let found = listpack::shortfalls(server, layout, assumed);
            let at = if is_cluster { format!("{}: ", server.address()) } else { String::new() };
            found.into_iter().map(move |shortfall| format!("{at}{shortfall}"))
        });
        let mut all: Vec<String> = of_each.collect();
        all.extend(listpack::shortfalls_at_replicas(&mut nodes, layout, assumed)?);
        Ok(all)
    });
    found.unwrap_or_else(|error| vec![format!("the server's listpack limits were not looked at: {error:#}")])
}
