//! How the proxy is asked to end.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How far the end has come. It only ever moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No more clients and no more requests; those that were accepted are answered.
    Draining,
    /// At once.
    Ended,
}

/// Moves a proxy towards its end.
#[derive(Clone, Debug)]
pub(crate) struct Stopper(watch::Sender<Phase>);

impl Stopper {
    pub(crate) fn new() -> (Self, watch::Receiver<Phase>) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (Self(sender), receiver)
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

/// Follows SIGTERM and SIGINT: the first drains, the second ends at once.
pub(crate) async fn follow_signals(stopper: Stopper) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    for phase in [Phase::Draining, Phase::Ended] {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        match phase {
            Phase::Draining => tracing::info!(signal = name, "stopping once all accepted requests are answered"),
            _ => tracing::warn!(signal = name, "stopping at once"),
        }
        stopper.advance(phase);
    }
    Ok(())
}
