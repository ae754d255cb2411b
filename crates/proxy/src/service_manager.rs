//! What the service manager that has started this process is told of it, as systemd's `sd_notify` has it: that clients can
//! connect, how it fares, that all its workers run, that it ends.
//!
//! ```text
//! READY=1 ──▶ WATCHDOG=1, as long as /livez would say that it lives ──▶ STOPPING=1 ──▶ WATCHDOG=1 … until it ends
//!                STATUS=… whenever that is another                        STATUS=… who is still to be answered
//! ```
//! Whoever is started by nobody who wants to know (`NOTIFY_SOCKET`) says nothing, and needs no thread for it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::admin::{Sources, Trouble, liveness, readiness};
use crate::shutdown::Phase;

/// How often it is looked how it fares, at the least.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

/// For what is left to do once the last client has its answers, or is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Says lines to the service manager.
type Say = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// The service manager, and what it wants to hear.
#[derive(Clone)]
pub struct ServiceManager {
    say: Arc<Say>,
    /// It ends a process that says for so long nothing of its workers; none: never.
    watchdog: Option<Duration>,
}

impl fmt::Debug for ServiceManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceManager").field("watchdog", &self.watchdog).finish_non_exhaustive()
    }
}

impl ServiceManager {
    /// The one that has started this process; none where nobody wants to hear anything.
    pub fn found() -> Option<Self> {
        std::env::var_os("NOTIFY_SOCKET")?;
        let say = |lines: &str| sd_notify::notify(&[NotifyState::Custom(lines)]);
        Some(Self::spoken_to_by(say, sd_notify::watchdog_enabled()))
    }

    /// One that is told lines this way, and ends a process whose workers it hears nothing of for so long.
    pub fn spoken_to_by(
        say: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static,
        watchdog: Option<Duration>,
    ) -> Self {
        Self { say: Arc::new(say), watchdog }
    }

    /// The configuration is being read again.
    pub fn note_reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.say(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "the system has no monotonic clock: the reload is not announced"),
        }
    }

    /// That is over.
    pub fn note_reloaded(&self) {
        self.say(&[NotifyState::Ready]);
    }

    /// What it doesn't hear it will act on by itself, so a failure is only logged.
    fn say(&self, states: &[NotifyState<'_>]) {
        let lines: Vec<_> = states.iter().map(ToString::to_string).collect();
        if let Err(error) = (self.say)(&lines.join("\n")) {
            tracing::warn!(%error, "the service manager can't be told");
        }
    }

    /// Says that clients can connect, and then how it fares until it has ended, on a thread of its own.
    pub(crate) fn follow(self, sources: Sources, phase: watch::Receiver<Phase>, shutdown: Duration) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut told = Told { manager: self, sources, status: String::new() };
        told.say_also(&[NotifyState::Ready]);
        // The thread ends with the program: until its last moment that is watched over.
        std::thread::Builder::new()
            .name("keyfold-notify".to_owned())
            .spawn(move || runtime.block_on(told.follow(phase, shutdown)))?;
        Ok(())
    }
}

/// What the manager has been told.
struct Told {
    manager: ServiceManager,
    sources: Sources,
    status: String,
}

impl Told {
    async fn follow(mut self, mut phase: watch::Receiver<Phase>, shutdown: Duration) {
        let half = self.manager.watchdog.map(|within| within / 2);
        let mut ticker = interval(half.unwrap_or(LOOKS_EVERY).clamp(Duration::from_millis(1), LOOKS_EVERY));
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                stops = phase.wait_for(|phase| *phase > Phase::Running) => {
                    // Without its sender nothing is left to watch over.
                    if stops.is_err() { return }
                    break;
                }
                _ = ticker.tick() => self.say_also(&[]),
            }
        }
        let more = if shutdown.is_zero() { Duration::MAX } else { shutdown + ENDS_WITHIN };
        let more = NotifyState::ExtendTimeoutUsec(u32::try_from(more.as_micros()).unwrap_or(u32::MAX));
        self.say_also(&[NotifyState::Stopping, more]);
        loop {
            ticker.tick().await;
            self.say_also(&[]);
        }
    }

    /// Says this, that all workers run if they do, and how it fares where that is another.
    fn say_also(&mut self, first: &[NotifyState<'_>]) {
        let status = self.status();
        let mut states = first.to_vec();
        if self.manager.watchdog.is_some() && liveness(&self.sources).ok {
            states.push(NotifyState::Watchdog);
        }
        if status != self.status {
            states.push(NotifyState::Status(&status));
        }
        if !states.is_empty() {
            self.manager.say(&states);
        }
        self.status = status;
    }

    /// How it fares, in a line.
    fn status(&self) -> String {
        let (clients, health) = (self.sources.room.taken(), readiness(&self.sources));
        if *self.sources.phase.borrow() > Phase::Running {
            return format!("stopping; {clients} clients are still to get their answers");
        }
        let detail = |trouble: &Trouble| trouble.detail.clone().unwrap_or_default();
        match health.ok {
            true => {
                let status = self.sources.status();
                let keys: Option<u64> = status.namespaces.iter().map(|one| one.contents.map(|held| held.keys)).sum();
                let folded = keys.map_or(String::new(), |keys| format!(", {keys} keys in buckets"));
                format!("serving {clients} clients; {} namespaces folded{folded}", status.namespaces.len())
            }
            false => {
                let why = health.reasons.iter().map(detail).collect::<Vec<_>>().join("; ");
                // A line break would end what is said of it.
                format!("not ready: {}", why.replace(char::is_control, " "))
            }
        }
    }
}
