//! The thread that lets clients in, until this proxy ends or another keyfold lets them in instead.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::arrival::Room;
use crate::listen::{self, Listener};
use crate::order::Order;
use crate::shutdown::{Phase, Stopper};
use crate::sockets::RemoveOnDrop;
use crate::takeover::{Giver, Successor};

/// How often it is looked whether the last client has gone.
const EMPTY_POLL: Duration = Duration::from_millis(20);

/// All that letting clients in takes.
pub(crate) struct Accepting {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) giver: Option<Giver>,
    pub(crate) room: Arc<Room>,
    pub(crate) workers: Vec<UnboundedSender<Order>>,
    pub(crate) stopper: Stopper,
    pub(crate) phase: watch::Receiver<Phase>,
    /// How long clients may stay once another keyfold has taken over; zero: for ever.
    pub(crate) drain: Duration,
}

impl Accepting {
    /// Lets clients in. Once another keyfold does, ends the proxy when its clients have gone, or their time is up.
    ///
    /// The files of its sockets go with these: later they may be those of a keyfold that has come since.
    pub(crate) async fn run(mut self, files: RemoveOnDrop) -> io::Result<()> {
        let mut listening = JoinSet::new();
        for listener in self.listeners.drain(..) {
            listening.spawn(listen::accept_all(listener, Arc::clone(&self.room), self.workers.clone()));
        }
        let giver = self.giver.take();
        let successor = tokio::select! {
            _ = self.phase.wait_for(|phase| *phase > Phase::Running) => return Ok(()),
            successor = successor(giver) => successor,
        };
        // What was accepted is a worker's by now; what wasn't waits for the other keyfold.
        listening.shutdown().await;
        drop(files);
        self.stopper.advance(Phase::Leaving);
        successor.hear_that_this_leaves().await;
        self.drain().await;
        Ok(())
    }

    async fn drain(mut self) {
        let emptied = async {
            while self.room.taken() > 0 {
                tokio::time::sleep(EMPTY_POLL).await;
            }
        };
        let time_is_up = async {
            match self.drain.is_zero() {
                true => std::future::pending().await,
                false => tokio::time::sleep(self.drain).await,
            }
        };
        tokio::select! {
            () = emptied => {}
            () = time_is_up => {
                let clients = self.room.taken();
                tracing::info!(clients, "closing clients that were not idle within --drain-timeout");
            }
            _ = self.phase.wait_for(|phase| *phase > Phase::Leaving) => {}
        }
        self.stopper.stop();
    }
}

/// Waits for a keyfold that has taken over.
async fn successor(giver: Option<Giver>) -> Successor {
    if let Some(giver) = giver {
        match giver.give().await {
            Ok(successor) => return successor,
            Err(error) => tracing::error!(%error, "can't hear keyfolds that would take over"),
        }
    }
    std::future::pending().await
}
