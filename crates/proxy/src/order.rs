//! What workers are told to do.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::arrival::Arrival;
use crate::folding::Folding;
use crate::upstream::Errand;

/// Work for the background of a worker, given a connection of its own.
pub type Task = Box<dyn FnOnce(Errand) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// What a worker is handed.
pub(crate) enum Order {
    Serve(Arrival),
    Run(Task),
    /// Begin no request; say once none is under way, or that after so long some still are.
    Pause(Duration, oneshot::Sender<bool>),
    /// Go on, perhaps by another layout.
    Resume(Option<Arc<Folding>>),
}
