//! What keyfold stands before, and what it is compared with.

use keyfold_core::named;

named! {
    /// What the two sides are.
    pub enum Behind {
        /// Keyfold before one server, compared with one server.
        Server = "server",
        /// Keyfold before a cluster, compared with a cluster whose only node has all slots, so that it never redirects.
        Cluster = "cluster",
        /// Keyfold before a cluster, compared with one server, by commands whose keys are in one slot or that keyfold
        /// carries out in parts.
        ClusterAsServer = "cluster-as-server",
    }
}

impl Behind {
    /// Whether keyfold stands before a cluster.
    pub fn is_cluster(self) -> bool {
        self != Self::Server
    }
}
