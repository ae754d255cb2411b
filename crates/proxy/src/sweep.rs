//! Drives the sweep: a walk over all, at a rate the server doesn't notice, by one proxy at a time; and beside it the
//! buckets in which something is known to have expired, by whichever proxy knows it.
//!
//! Both go faster where they find much, as the server's own expiry does, and never take more than a quarter of the server's
//! time: after each batch they rest three times as long as it took.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::admin::lease::Lease;
use keyfold_core::cluster::Node;
use keyfold_core::layout::{Layout, Revision};
use keyfold_core::memory::Allocator;
use keyfold_core::resp::{Reply, write_command};
use keyfold_core::sweep::{ContentsCount, Sweep, Swept};
use tokio::time::Instant;

use crate::config::Config;
use crate::holding::Holding;
use crate::observation::Observations;
use crate::order::Task;
use crate::upstream::{Errand, LinkError};

/// How often it is looked for buckets that are due.
const TICK: Duration = Duration::from_millis(200);

/// Buckets that are due, looked through at once.
const BUCKETS_AT_ONCE: usize = 64;

/// How often it is asked which databases have keys.
const DATABASES_EVERY: Duration = Duration::from_secs(5);

/// What has been due for longer than this is a word to the operator, at most as often as that.
const LAG_MS: u64 = 10_000;
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A rest is so many times as long as the work before it, where much is found.
const REST: u32 = 3;

/// From this share of expired fields among those that were looked at, it goes as fast as it may.
const MUCH: f64 = 0.1;

/// Why a walk was broken off.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("{0}")]
    Server(String),
    #[error("another proxy sweeps now")]
    LeaseLost,
    #[error("the layout has changed")]
    LayoutChanged,
}

/// The task that walks over all, again and again. Where there are `observations` it counts what it comes by.
pub(crate) fn walk(config: Arc<Config>, observations: Option<Arc<Observations>>) -> Task {
    Box::new(|errand| Box::pin(walk_for_ever(errand, config, observations)) as Pin<Box<dyn Future<Output = ()>>>)
}

/// The task that looks through buckets in which something is known to have expired, and at parts that may have become nobody's.
pub(crate) fn remove_due() -> Task {
    Box::new(|errand| Box::pin(remove_due_for_ever(errand)) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn walk_for_ever(errand: Errand, config: Arc<Config>, observations: Option<Arc<Observations>>) {
    let lease = errand.with_env(|env| Lease::to_sweep((env.nonces)()));
    let errand = errand.in_database(0);
    let pace = Pace::new(config.sweep.fields_per_second);
    let mut walker = Walker { errand, holding: Holding::of(lease), pace, count: None, allocator: None };
    let mut pause = config.sweep.pause;
    loop {
        tokio::time::sleep(pause).await;
        pause = config.sweep.pause;
        if walker.errand.with_env(|env| env.layout.is_empty()) {
            continue;
        }
        match walker.hold_lease().await {
            Ok(true) => {}
            Ok(false) => {
                walker.forget();
                continue;
            }
            Err(_) => continue,
        }
        let begun = Instant::now();
        walker.count = match &observations {
            Some(observations) => Some(walker.begin_count(observations).await),
            None => None,
        };
        let swept = match walker.walk_all().await {
            Ok(swept) => swept,
            Err(reason) => {
                tracing::debug!(%reason, "sweep broken off; it begins again later");
                continue;
            }
        };
        let walk_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        walker.errand.with_env(|env| env.stats.sweep().set_walk_ms(walk_ms));
        let Swept { fields, expired, orphans } = swept;
        if (expired, orphans) != (0, 0) {
            tracing::info!(fields, expired, orphans, walk_ms, "swept");
        }
        pause = config.sweep.pause.mul_f64((1.0 - share(swept) / MUCH).clamp(0.1, 1.0));
        walker.tell_of_large_buckets();
    }
}

/// The share of expired fields among those that were looked at.
fn share(swept: Swept) -> f64 {
    // Counts of fields are far below where a float gets imprecise.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no precision")]
    let share = swept.expired as f64 / swept.fields.max(1) as f64;
    share
}

/// How long to rest between batches.
#[derive(Debug)]
struct Pace {
    /// Fields looked at in a second, where little is found.
    rate: u32,
    /// The share of expired fields, as the last batches had it.
    share: f64,
}

impl Pace {
    fn new(rate: u32) -> Self {
        Self { rate, share: 0.0 }
    }

    /// The rest after a batch that looked at something and took some time.
    fn rest(&mut self, batch: Swept, took: Duration) -> Duration {
        if batch.fields > 0 {
            self.share = self.share.midpoint(share(batch));
        }
        // An empty step of the walk counts too: SCAN isn't free.
        let looked_at = u32::try_from(batch.fields).unwrap_or(u32::MAX).max(100);
        let calm = Duration::from_secs_f64(f64::from(looked_at) / f64::from(self.rate.max(1)));
        if self.share >= MUCH { calm.min(took * REST) } else { calm.max(took) }
    }
}

/// Sends the next batch of a sweep and takes its replies; what was looked at, none at the end.
async fn sweep_batch(sweep: &mut Sweep, errand: &mut Errand, layout: Revision) -> Result<Option<Swept>, Broken> {
    errand.connect().await?;
    let _busy = errand.begin().await;
    if revision(errand) != layout {
        return Err(Broken::LayoutChanged);
    }
    sweep.publish(errand.notices());
    let mut commands = Vec::new();
    let Some(count) = sweep.next(&mut commands) else { return Ok(None) };
    let replies = errand.request(&commands, count).await?;
    let batch = errand.with_env(|env| sweep.handle_replies(&replies, env)).map_err(Broken::Server)?;
    errand.with_env(|env| env.stats.sweep().add(batch));
    Ok(Some(batch))
}

/// The layout that a sweep goes by.
fn revision(errand: &Errand) -> Revision {
    errand.with_env(|env| env.layout.revision())
}

struct Walker {
    /// In database 0, for the lease.
    errand: Errand,
    holding: Holding,
    pace: Pace,
    /// Counts what it comes by, where somebody wants to know and nothing was passed over.
    count: Option<ContentsCount>,
    /// The server's, once it has told.
    allocator: Option<Allocator>,
}

impl Walker {
    /// Takes the lease or renews it; whether this proxy holds it.
    async fn hold_lease(&mut self) -> Result<bool, LinkError> {
        self.holding.hold(&mut self.errand).await
    }

    /// Walks every database that has keys, on each primary of a cluster in turn. One that is away is passed over.
    async fn walk_all(&mut self) -> Result<Swept, Broken> {
        let (mut all, layout) = (Swept::default(), revision(&self.errand));
        for node in self.errand.nodes() {
            match self.walk_node(node, &mut all).await {
                Err(Broken::Link(reason)) if node.is_some() => {
                    self.count = None;
                    tracing::debug!(%reason, "a node of the cluster is swept later");
                }
                walked => walked?,
            }
        }
        if let Some(count) = self.count.take().filter(|_| revision(&self.errand) == layout) {
            self.errand.with_env(|env| {
                for (namespace, contents) in count.finish(env.layout) {
                    env.stats.namespace(namespace).set_contents(Some(contents));
                }
            });
        }
        Ok(all)
    }

    /// What it knew of the keyspace is another's to say now.
    fn forget(&self) {
        self.errand.with_env(|env| {
            for (namespace, _) in env.layout.iter() {
                env.stats.namespace(namespace).set_contents(None);
            }
            env.stats.sweep().large_buckets.clear();
        });
    }

    async fn begin_count(&mut self, observations: &Observations) -> ContentsCount {
        if self.allocator.is_none() {
            self.allocator = self.ask_allocator().await;
        }
        let (limits, in_cluster) = (observations.limits(), self.errand.is_before_cluster());
        // That of official builds, where the server doesn't tell, as some managed services don't.
        let allocator = self.allocator.unwrap_or_default();
        self.errand.with_env(|env| ContentsCount::new(env.server, limits, allocator, in_cluster))
    }

    /// The server's allocator, or that of one node.
    async fn ask_allocator(&self) -> Option<Allocator> {
        let node = self.errand.nodes().into_iter().next().flatten();
        let mut errand = self.errand.another().at_node(node);
        let told = errand.ask_one(|wire| write_command(wire, &[b"MEMORY", b"MALLOC-STATS"])).await.ok()?;
        Allocator::from_malloc_stats(&String::from_utf8_lossy(Reply::parse(&told).ok()?.bytes()?))
    }

    async fn walk_node(&mut self, node: Option<Node>, all: &mut Swept) -> Result<(), Broken> {
        let mut errand = self.errand.another().at_node(node);
        for database in errand.databases().await? {
            self.walk_one(node, database, all).await?;
        }
        Ok(())
    }

    async fn walk_one(&mut self, node: Option<Node>, database: u32, all: &mut Swept) -> Result<(), Broken> {
        let mut errand = self.errand.another().at_node(node).in_database(database);
        let mut sweep = placed(Sweep::default(), node).counting(self.count.take());
        let layout = revision(&errand);
        loop {
            if !self.hold_lease().await? {
                return Err(Broken::LeaseLost);
            }
            let begun = Instant::now();
            let Some(batch) = sweep_batch(&mut sweep, &mut errand, layout).await? else {
                self.count = sweep.into_count();
                return Ok(());
            };
            all.fields += batch.fields;
            all.expired += batch.expired;
            all.orphans += batch.orphans;
            tokio::time::sleep(self.pace.rest(batch, begun.elapsed())).await;
        }
    }

    fn tell_of_large_buckets(&self) {
        self.errand.with_env(|env| {
            for bucket in env.stats.sweep().large_buckets.take_untold() {
                tracing::warn!(
                    bucket = %bucket.name.escape_ascii(),
                    fields = bucket.fields,
                    namespace = %env.layout.namespace(bucket.namespace).keys,
                    "a bucket has far more fields than the others, and each command on it is slower for that: \
                     spread its keys by `keyfold fold` with another bucket rule, such as `count`"
                );
            }
        });
    }
}

async fn remove_due_for_ever(errand: Errand) {
    let mut remover = Remover { asking: errand.in_database(0), known: BTreeMap::new(), errands: BTreeMap::new() };
    let mut warned: Option<Instant> = None;
    loop {
        tokio::time::sleep(TICK).await;
        if let Err(reason) = remover.remove_due().await {
            tracing::debug!(%reason, "removing what has expired was broken off; it goes on later");
            tokio::time::sleep(TICK * 5).await;
        }
        let lag_ms = remover.asking.with_env(|env| env.stats.sweep().expiring.lag_ms(env.now_ms));
        if lag_ms > LAG_MS && warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            warned = Some(Instant::now());
            tracing::warn!(
                lag_ms,
                "the sweep can't keep up: values expire faster than a quarter of the server's time removes them, \
                 and the server's memory grows beyond what is alive; give values that are written that often a \
                 longer expiry, or their keys a server of their own"
            );
        }
    }
}

/// Looks through buckets that are due.
struct Remover {
    /// In database 0.
    asking: Errand,
    /// The databases of each node that have keys, and when that was asked.
    known: BTreeMap<Option<Node>, (Instant, Vec<u32>)>,
    /// One to each node and in each database so far.
    errands: BTreeMap<(Option<Node>, u32), Errand>,
}

impl Remover {
    /// What a node has that can't be looked at now waits, and holds up no other's.
    async fn remove_due(&mut self) -> Result<(), Broken> {
        let (mut away, mut broken) = (BTreeSet::new(), Ok(()));
        loop {
            let due = self.asking.with_env(|env| env.stats.sweep().expiring.take_due(env.now_ms, BUCKETS_AT_ONCE));
            let abandoned =
                self.asking.with_env(|env| env.stats.sweep().abandoned.take_due(env.now_ms, BUCKETS_AT_ONCE));
            if due.is_empty() && abandoned.is_empty() {
                return broken;
            }
            for (node, due) in self.by_node(due, |bucket| bucket) {
                if !away.contains(&node)
                    && let Err(reason) = self.look_through(node, |layout| Sweep::of_buckets(&due, layout)).await
                {
                    broken = Err(reason);
                    away.insert(node);
                }
                if away.contains(&node) {
                    self.asking.with_env(|env| env.stats.sweep().expiring.put_back(&due, env.now_ms));
                }
            }
            for (node, owners) in self.by_node(abandoned, |parts| &parts.owner) {
                if !away.contains(&node)
                    && let Err(reason) = self.look_through(node, |_| Sweep::of_parts(&owners)).await
                {
                    broken = Err(reason);
                    away.insert(node);
                }
                if away.contains(&node) {
                    self.asking.with_env(|env| env.stats.sweep().abandoned.put_back(owners, env.now_ms));
                }
            }
        }
    }

    /// These by the node that has their name now. What nobody has is found by the walk.
    fn by_node<T>(&self, due: Vec<T>, name: impl Fn(&T) -> &Vec<u8>) -> BTreeMap<Option<Node>, Vec<T>> {
        let mut by_node: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in due {
            if let Some(node) = self.asking.node_of(name(&one)) {
                by_node.entry(node).or_default().push(one);
            }
        }
        by_node
    }

    async fn look_through(&mut self, node: Option<Node>, sweep: impl Fn(&Layout) -> Sweep) -> Result<(), Broken> {
        // Which database a bucket lies in isn't noted: mostly there is one.
        for database in self.databases(node).await? {
            let errand = self.errand(node, database);
            let (sweep, layout) = errand.with_env(|env| (sweep(env.layout), env.layout.revision()));
            let mut sweep = placed(sweep, node);
            let mut begun = Instant::now();
            while sweep_batch(&mut sweep, errand, layout).await?.is_some() {
                tokio::time::sleep(begun.elapsed() * REST).await;
                begun = Instant::now();
            }
        }
        Ok(())
    }

    async fn databases(&mut self, node: Option<Node>) -> Result<Vec<u32>, Broken> {
        if let Some((asked, databases)) = self.known.get(&node)
            && asked.elapsed() < DATABASES_EVERY
        {
            return Ok(databases.clone());
        }
        let databases = self.errand(node, 0).databases().await?;
        self.known.insert(node, (Instant::now(), databases.clone()));
        Ok(databases)
    }

    fn errand(&mut self, node: Option<Node>, database: u32) -> &mut Errand {
        let asking = &self.asking;
        let another = || asking.another().at_node(node).in_database(database);
        self.errands.entry((node, database)).or_insert_with(another)
    }
}

/// A sweep on this node of a cluster, or on the one server.
fn placed(sweep: Sweep, node: Option<Node>) -> Sweep {
    if node.is_some() { sweep.on_node() } else { sweep }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_faster_with_what_it_finds() {
        let mut pace = Pace::new(1000);
        let batch = |fields, expired| Swept { fields, expired, orphans: 0 };
        let took = Duration::from_millis(2);
        assert_eq!(pace.rest(batch(1000, 0), took), Duration::from_secs(1));
        assert_eq!(pace.rest(batch(1000, 500), took), took * REST);
        assert_eq!(pace.rest(batch(0, 0), took), took * REST, "what was found is being removed");
        let rests: Vec<_> = (0..4).map(|_| pace.rest(batch(1000, 0), took)).collect();
        assert_eq!(rests.last(), Some(&Duration::from_secs(1)));
    }
}
