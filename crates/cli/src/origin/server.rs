//! A live server, or the nodes of a cluster.

use std::num::NonZero;

use anyhow::bail;
use keyfold_core::layout::Layout;
use keyfold_server::layout::stored;
use keyfold_server::memory::{self, Measured};
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, Target, uses};

use super::seen::{Known, Node, OnSeen, Origin, Seen};
use crate::scan::{self, Database, Databases, End, KeyScan, ServerValues, Values, Walked};

/// A server that keys are looked at of.
pub(super) struct ServerOrigin {
    target: Target,
    nodes: Nodes,
    databases: Vec<Vec<Database>>,
    /// As it was before the walk.
    measured: Vec<Measured>,
    known: Known,
}

impl ServerOrigin {
    pub(super) fn open(target: &Target, databases: &Databases, assumed: &[(String, u64)]) -> anyhow::Result<Self> {
        let mut nodes = Nodes::connect(target)?;
        for server in nodes.servers() {
            if !server.is_ready()? {
                bail!("the server at {} loads its data or runs a script; try again once it is over", server.address());
            }
        }
        let facts = memory::model_of_all(&mut nodes, assumed)?;
        let measured = measure(&mut nodes)?;
        let uses = uses::ask(&mut nodes)?;
        let databases = scan::chosen_of_each(nodes.servers(), databases)?;
        let shares = nodes.addresses().into_iter().zip(nodes.slots()).zip(&databases);
        let shares =
            shares.map(|((address, slots), databases)| Node { address, slots, keys: scan::keys_of(databases) });
        let known = Known {
            server: nodes.first().version().to_string(),
            flavor: nodes.first().version().flavor,
            address: target.address.to_string(),
            facts,
            total: scan::keys_of(databases.iter().flatten()),
            databases: databases.iter().map(Vec::len).max().unwrap_or(0),
            nodes: shares.collect(),
            eviction: memory::eviction(nodes.first())?,
            uses,
            notes: nodes.other_releases().into_iter().collect(),
            dump: None,
        };
        Ok(Self { target: target.clone(), nodes, databases, measured, known })
    }
}

impl Origin for ServerOrigin {
    fn known(&self) -> &Known {
        &self.known
    }

    fn stored(&mut self) -> anyhow::Result<Option<Layout>> {
        Ok(stored::read(self.nodes.home())?.map(|stored| stored.layout))
    }

    fn walk(&mut self, scan: &KeyScan, on_seen: OnSeen<'_>) -> Walked {
        scan.run(self.nodes.servers(), &self.databases, &mut |page| {
            let keys = page.keys.len();
            on_seen(Seen::Page(page, keys))
        })
    }

    /// Once more after the walk, on connections of their own: a table that was growing has mostly settled by then. The
    /// server may be gone, too.
    fn measured(&mut self, walked: &Walked) -> Vec<Measured> {
        let again = || measure(&mut Nodes::connect(&self.target).ok()?).ok();
        let is_lost = matches!(walked.end, End::Lost(_));
        Some(is_lost).filter(|is_lost| !is_lost).and_then(|_| again()).unwrap_or_else(|| self.measured.clone())
    }

    fn values(&self, max_ops: Option<NonZero<u32>>) -> anyhow::Result<Box<dyn Values>> {
        let nodes = Nodes::connect(&self.target)?;
        Ok(Box::new(ServerValues::new(nodes, self.databases.clone(), Pace::new(max_ops))))
    }
}

/// What each server says of its memory.
fn measure(nodes: &mut Nodes) -> anyhow::Result<Vec<Measured>> {
    nodes.servers().iter_mut().map(memory::measured).collect()
}
