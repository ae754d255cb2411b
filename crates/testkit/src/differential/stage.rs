//! The sides, started for as long as a run needs them.

use keyfold_core::admin::LAYOUT_KEY;
use keyfold_core::collection::Vocabulary;
use keyfold_core::layout::{Attempt, Layout, LayoutConflict, LayoutError, LayoutFile};
use keyfold_core::number::parse_integer;

use super::behind::Behind;
use super::cached::{CACHED_LAYOUT, CODED_CACHED_LAYOUT, CacheSides};
use super::collections::{COLLECTIONS_LAYOUT, MEMBERS};
use super::keys::{CLUSTER_LAYOUT, CODED_CLUSTER_LAYOUT};
use super::moving::{Former, Way};
use crate::cluster::{Cluster, ClusterError, Options};
use crate::coded::{over, store};
use crate::conformance::{CODED_LAYOUT, LAYOUT};
use crate::server::{Server, StartError};
use crate::servers::Binary;
use crate::sides::Sides;
use crate::subject::{Subject, SubjectError};
use crate::wire::WireError;

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
    /// Keys can't be moved so.
    #[error(transparent)]
    Conflict(#[from] LayoutConflict),
    /// A connection.
    #[error(transparent)]
    Connection(#[from] WireError),
}

/// Servers, and keyfold before some of them.
#[derive(Debug)]
pub struct Stage {
    sides: Sides,
    _subject: Subject,
    _servers: Vec<Server>,
    _clusters: Vec<Cluster>,
    former: Option<Former>,
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
        Ok(Self { sides, _subject: subject, _servers: servers, _clusters: clusters, former: None })
    }

    /// Starts both sides, with a layout that folds sets and hashes, the latter by a vocabulary where `coded`.
    ///
    /// # Errors
    /// Where one of them doesn't start.
    pub fn of_collections(binary: &Binary, coded: bool) -> Result<Self, StageError> {
        let servers = vec![binary.start(&[])?, binary.start(&[])?];
        let subject = if coded {
            store(&by_a_vocabulary()?, &mut servers[1].connect()?)?;
            Subject::beside(&servers[1])?
        } else {
            Subject::start(&servers[1], COLLECTIONS_LAYOUT)?
        };
        let sides = Sides { plain: servers[0].address(), subject: subject.address() };
        Ok(Self { sides, _subject: subject, _servers: servers, _clusters: Vec::new(), former: None })
    }

    /// Starts both sides, where all namespaces of the layout with codecs are on the move.
    ///
    /// # Errors
    /// Where one of them doesn't start.
    pub fn moving(binary: &Binary, way: Way) -> Result<Self, StageError> {
        let servers = vec![binary.start(&[])?, binary.start(&[])?];
        let (former, subject) = begin_move(&servers[1], way)?;
        let sides = Sides { plain: servers[0].address(), subject: subject.address() };
        Ok(Self { sides, _subject: subject, _servers: servers, _clusters: Vec::new(), former: Some(former) })
    }

    /// Where keys lay before, where they are on the move.
    pub fn former(&self) -> Option<&Former> {
        self.former.as_ref()
    }

    /// Where the two listen.
    pub fn sides(&self) -> Sides {
        self.sides
    }
}

/// A server, and two keyfolds before it.
#[derive(Debug)]
pub struct CacheStage {
    keyfolds: [Subject; 2],
    server: Server,
}

impl CacheStage {
    /// Starts all three, with a layout that has codecs where `coded`.
    ///
    /// # Errors
    /// Where one of them doesn't start.
    pub fn start(binary: &Binary, coded: bool) -> Result<Self, StageError> {
        let server = binary.start(&[])?;
        let first = Subject::start(&server, if coded { CODED_CACHED_LAYOUT } else { CACHED_LAYOUT })?;
        Ok(Self { keyfolds: [first, Subject::beside(&server)?], server })
    }

    /// Where they listen.
    pub fn sides(&self) -> CacheSides {
        CacheSides { keyfolds: self.keyfolds.each_ref().map(Subject::address), server: self.server.address() }
    }
}

/// The layout of sets and hashes, those hashes without a codec by a vocabulary of some of the members that commands have.
fn by_a_vocabulary() -> Result<Layout, StageError> {
    let plain = "type = \"hash\"\nbucket = { span = 8 }";
    let layout = Layout::parse_file(&COLLECTIONS_LAYOUT.replace(plain, &format!("{plain}\ncodec = \"fields\"")))?;
    let values =
        MEMBERS.into_iter().filter(|member| (2..10).contains(&member.len()) && parse_integer(member).is_none());
    let vocabulary = Vocabulary::stored(MEMBERS.into_iter().step_by(2), values);
    let all = layout.iter().filter(|(_, namespace)| namespace.codec.name == "fields").map(|(index, namespace)| {
        let mut codecs = namespace.codecs.clone();
        codecs.write_trained(&namespace.codec, Some(&vocabulary));
        (index, codecs)
    });
    Ok(layout.with_codecs(all.collect()))
}

/// Puts a layout in force in which all namespaces of the coded layout are on the move, and starts keyfold by it.
fn begin_move(server: &Server, way: Way) -> Result<(Former, Subject), StageError> {
    drop(Subject::start(server, CODED_LAYOUT)?);
    let mut wire = server.connect()?;
    let stored = wire.ask(&[b"GET", LAYOUT_KEY])?;
    let settled = Layout::from_stored(&String::from_utf8_lossy(stored.bytes().unwrap_or_default()))?;
    let file = |text: &str| LayoutFile::parse(text);
    let moving = match way {
        Way::Folded => over(&settled, &Layout::default().plan_fold(&file(CODED_LAYOUT)?)?.layout),
        Way::Placed => {
            let other = CODED_LAYOUT.replace("span = 8", "span = 16").replace("count = 2", "count = 3");
            settled.plan_fold(&file(&other)?)?.layout
        }
        Way::Unfolded => {
            let all: Vec<_> = settled.iter().map(|(index, _)| index).collect();
            settled.plan_unfold(&all)?.layout
        }
    };
    wire.ask(&[b"FLUSHALL"])?;
    store(&moving, &mut wire)?;
    let subject = Subject::beside(server)?;
    Ok((Former::new(server.address(), moving), subject))
}
