//! The two sides, started for as long as a run needs them.

use keyfold_core::layout::{Attempt, Layout, LayoutError};

use super::behind::Behind;
use super::keys::{CLUSTER_LAYOUT, CODED_CLUSTER_LAYOUT};
use crate::cluster::{Cluster, ClusterError, Options};
use crate::conformance::{CODED_LAYOUT, LAYOUT};
use crate::server::{Server, StartError};
use crate::servers::Binary;
use crate::sides::Sides;
use crate::subject::{Subject, SubjectError};

/// How many nodes the cluster behind keyfold has.
const NODES: usize = 3;

/// Why a side does not start.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// A server.
    #[error(transparent)]
    Server(#[from] StartError),
    /// A cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The proxy.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The layout is none.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Servers, and keyfold before some of them.
#[derive(Debug)]
pub struct Stage {
    sides: Sides,
    _subject: Subject,
    _servers: Vec<Server>,
    _clusters: Vec<Cluster>,
}

impl Stage {
    /// Starts both sides, with a layout that has codecs where `coded`.
    ///
    /// # Errors
    /// Where one of them doesn't start.
    pub fn start(binary: &Binary, behind: Behind, coded: bool) -> Result<Self, StageError> {
        let (mut servers, mut clusters) = (Vec::new(), Vec::new());
        let plain = if behind == Behind::Cluster {
            clusters.push(Cluster::start(binary, 1, 0, &Options::default())?);
            clusters[0].node(0).address()
        } else {
            servers.push(binary.start(&[])?);
            servers[0].address()
        };
        let subject = if behind.is_cluster() {
            let cluster = Cluster::start(binary, NODES, 0, &Options::default())?;
            let layout = Layout::parse_file(if coded { CODED_CLUSTER_LAYOUT } else { CLUSTER_LAYOUT })?;
            cluster.put_in_force(&layout.with_attempt(Attempt(1)))?;
            clusters.push(cluster);
            Subject::before_cluster(&clusters[clusters.len() - 1])?
        } else {
            let server = binary.start(&[])?;
            let subject = Subject::start(&server, if coded { CODED_LAYOUT } else { LAYOUT })?;
            servers.push(server);
            subject
        };
        let sides = Sides { plain, subject: subject.address() };
        Ok(Self { sides, _subject: subject, _servers: servers, _clusters: clusters })
    }

    /// Where the two listen.
    pub fn sides(&self) -> Sides {
        self.sides
    }
}
