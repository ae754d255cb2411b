//! What is looked at when operators ask. All of it is there already: nobody is asked for it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keyfold_core::layout::Layout;
use keyfold_core::status::Status;
use tokio::sync::watch;

use crate::arrival::Room;
use crate::folding::Folding;
use crate::membership::Membership;
use crate::observation::Observations;
use crate::shutdown::Phase;
use crate::stats::{ClusterGauges, Meters, Stats};

/// Where all that operators see comes from.
#[derive(Debug)]
pub(crate) struct Sources {
    /// One for each worker.
    pub(crate) stats: Vec<Arc<Stats>>,
    pub(crate) room: Arc<Room>,
    pub(crate) folding: watch::Receiver<Arc<Folding>>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) observations: Arc<Observations>,
    /// When the proxy was started.
    pub(crate) started: SystemTime,
    /// What memory costs, where that was said.
    pub(crate) usd_per_gb_month: Option<f64>,
}

impl Sources {
    /// What keyfold says of itself.
    pub(crate) fn status(&self) -> Status {
        let folding = Arc::clone(&self.folding.borrow());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // By this machine's clock, which is near enough to tell a lag of seconds.
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        Status::new(&folding.layout, &folding.namespaces, now_ms)
    }

    /// The layout in use.
    pub(super) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.folding.borrow().layout)
    }

    /// What each worker counts and says of itself.
    pub(super) fn meters(&self) -> impl Iterator<Item = &Meters> + Clone {
        self.stats.iter().filter_map(|stats| stats.meters.as_deref())
    }

    /// The cluster, where it stands before one.
    pub(super) fn cluster(&self) -> Option<ClusterGauges> {
        ClusterGauges::sum(self.meters().map(|meters| meters.cluster.read()))
    }

    /// For how long the worker has not run that has not for longest.
    pub(super) fn longest_silence(&self) -> Duration {
        self.stats.iter().map(|stats| stats.silent_for()).max().unwrap_or_default()
    }
}
