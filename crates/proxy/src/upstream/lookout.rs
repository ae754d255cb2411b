//! New connections to nodes of a cluster that wait for others' word on whether they may be used.

use std::cell::RefCell;

use keyfold_core::change::Clearance;
use tokio::sync::{Notify, oneshot};

/// Who waits for a look.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    waiting: RefCell<Vec<oneshot::Sender<Clearance>>>,
    wanted: Notify,
}

impl Lookout {
    /// Whether connections that are named by now may be used.
    pub(super) async fn clearance(&self) -> Clearance {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push(sender);
        self.wanted.notify_one();
        receiver.await.unwrap_or(Clearance::Later)
    }

    /// Waits until somebody waits: all who do. What is asked from now on is an answer to them.
    pub(super) async fn wanted(&self) -> Vec<oneshot::Sender<Clearance>> {
        self.wanted.notified().await;
        self.waiting.take()
    }
}
