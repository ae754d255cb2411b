//! How the proxy is asked to end.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How far the end has come. It only ever moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Another keyfold has taken over: no more clients, and those that are here go on until they are idle.
    Leaving,
    /// No more clients and no more requests; those that were accepted are answered.
    Draining,
    /// At once.
    Ended,
}

/// Moves a proxy towards its end, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<Phase>);

impl Stopper {
    pub(crate) fn new() -> (Self, watch::Receiver<Phase>) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (Self(sender), receiver)
    }

    /// Begins the end: no more clients, no more requests, and every accepted one is answered.
    pub fn stop(&self) {
        self.advance(Phase::Draining);
    }

    /// How far the end has come, from now on.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }

    /// Moves on to `phase`; never back.
    pub(crate) fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let moves = phase > *now;
            *now = phase.max(*now);
            moves
        });
    }
}

/// SIGTERM and SIGINT, caught from the making of this on.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Needs a runtime around it.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The first drains, the second ends at once.
    pub(crate) async fn follow(mut self, stopper: Stopper) {
        for phase in [Phase::Draining, Phase::Ended] {
            let name = tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
            };
            match phase {
                Phase::Draining => tracing::info!(signal = name, "stopping once all accepted requests are answered"),
                _ => tracing::warn!(signal = name, "stopping at once"),
            }
            stopper.advance(phase);
        }
    }
}
