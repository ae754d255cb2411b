//! Drives the sweep: at a rate the server doesn't notice, by one proxy at a time.
//!
//! The lease only keeps proxies from doing the same work twice; nothing is wrong where two sweep at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::resp::{Reply, write_command};
use keyfold_core::sweep::{Sweep, Swept};
use tokio::time::Instant;

use crate::config::Config;
use crate::upstream::{Errand, LinkError};
use crate::worker::Task;

/// The key that holds the lease: who sweeps.
const LEASE_KEY: &[u8] = b"keyfold:sweep";

/// How long the lease holds when its holder is gone.
const LEASE_MS: &[u8] = b"30000";

/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(10);

/// Why a walk was broken off.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("{0}")]
    Server(String),
    #[error("another proxy sweeps now")]
    LeaseLost,
}

/// The task that sweeps, again and again.
pub(crate) fn sweep(config: Arc<Config>) -> Task {
    Box::new(|errand| Box::pin(sweep_for_ever(errand, config)) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn sweep_for_ever(errand: Errand, config: Arc<Config>) {
    let holder = errand.with_env(|env| format!("{:016x}", (env.nonces)()));
    let mut sweeper =
        Sweeper { errand: errand.in_database(0), holder, renewed: None, rate: config.sweep.fields_per_second };
    loop {
        tokio::time::sleep(config.sweep.pause).await;
        if sweeper.errand.with_env(|env| env.layout.is_empty()) || !sweeper.hold_lease().await.unwrap_or(false) {
            continue;
        }
        match sweeper.sweep_all().await {
            Ok(Swept { expired: 0, orphans: 0, .. }) => {}
            Ok(Swept { fields, expired, orphans }) => tracing::info!(fields, expired, orphans, "swept"),
            Err(reason) => tracing::debug!(%reason, "sweep broken off; it begins again later"),
        }
    }
}

struct Sweeper {
    /// In database 0, for the lease.
    errand: Errand,
    holder: String,
    renewed: Option<Instant>,
    /// Fields looked at in a second.
    rate: u32,
}

impl Sweeper {
    /// Takes the lease or renews it; whether this proxy holds it.
    async fn hold_lease(&mut self) -> Result<bool, LinkError> {
        if self.renewed.is_some_and(|renewed| renewed.elapsed() < RENEWAL) {
            return Ok(true);
        }
        let mut commands = Vec::new();
        write_command(&mut commands, &[b"SET", LEASE_KEY, self.holder.as_bytes(), b"NX", b"PX", LEASE_MS]);
        write_command(&mut commands, &[b"GET", LEASE_KEY]);
        let replies = self.errand.request(&commands, 2).await?;
        let held = matches!(replies.get(1).map(|raw| Reply::parse(raw)), Some(Ok(Reply::Bulk(holder))) if holder == self.holder.as_bytes());
        self.renewed = held.then(Instant::now);
        if held {
            commands.clear();
            write_command(&mut commands, &[b"PEXPIRE", LEASE_KEY, LEASE_MS]);
            self.errand.request(&commands, 1).await?;
        }
        Ok(held)
    }

    /// Walks every database that has keys.
    async fn sweep_all(&mut self) -> Result<Swept, Broken> {
        let mut all = Swept::default();
        for database in self.databases().await? {
            let swept = self.sweep_one(database).await?;
            all.fields += swept.fields;
            all.expired += swept.expired;
            all.orphans += swept.orphans;
        }
        Ok(all)
    }

    async fn databases(&mut self) -> Result<Vec<u32>, Broken> {
        let mut command = Vec::new();
        write_command(&mut command, &[b"INFO", b"keyspace"]);
        let replies = self.errand.request(&command, 1).await?;
        let text = match replies.first().map(|raw| Reply::parse(raw)) {
            Some(Ok(Reply::Bulk(text))) => String::from_utf8_lossy(text).into_owned(),
            _ => return Err(Broken::Server("INFO was refused".to_owned())),
        };
        // db0:keys=7,expires=0,avg_ttl=0
        let number = |line: &str| line.strip_prefix("db")?.split(':').next()?.parse().ok();
        Ok(text.lines().filter_map(number).collect())
    }

    async fn sweep_one(&mut self, database: u32) -> Result<Swept, Broken> {
        let mut errand = self.errand.another().in_database(database);
        let mut sweep = Sweep::default();
        let mut commands = Vec::new();
        while let Some(count) = sweep.next(&mut commands) {
            if !self.hold_lease().await? {
                return Err(Broken::LeaseLost);
            }
            let before = sweep.swept().fields;
            let replies = errand.request(&commands, count).await?;
            errand.with_env(|env| sweep.handle_replies(&replies, env)).map_err(Broken::Server)?;
            commands.clear();
            // An empty step of the walk counts too: SCAN isn't free.
            let looked_at = u32::try_from(sweep.swept().fields - before).unwrap_or(u32::MAX).max(100);
            tokio::time::sleep(Duration::from_secs_f64(f64::from(looked_at) / f64::from(self.rate.max(1)))).await;
        }
        Ok(sweep.swept())
    }
}
