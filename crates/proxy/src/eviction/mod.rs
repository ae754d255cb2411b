//! Keeps caches within their memory: one evictor to each primary, in one proxy at a time.
//!
//! ```text
//! keep: by which rules, whose turn it is, which primaries there are ──▶ node: memory, and what leaves
//!                                                                   ──▶ knowledge: what is asked for, told and saved
//! ```
//!
//! Nothing is lost where nobody holds the lease, or where two do: each removal is by itself. So a proxy that finds a server
//! far above its mark doesn't wait for the lease, whose node may be away.

mod knowledge;
mod node;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::admin::lease::Lease;
use keyfold_core::cache::Cache;
use keyfold_core::cluster::Node;
use keyfold_core::layout::CacheRules;
use tokio::task::{JoinHandle, spawn_local};

use crate::config::Config;
use crate::holding::Holding;
use crate::order::Task;
use crate::upstream::Errand;

/// How often it is looked for rules, for the lease, and for primaries.
const TICK: Duration = Duration::from_millis(500);

/// The task that keeps them.
pub(crate) fn keep(config: Arc<Config>, cache: Arc<Cache>) -> Task {
    Box::new(|errand| Box::pin(keep_for_ever(errand, config, cache)) as Pin<Box<dyn Future<Output = ()>>>)
}

/// What is known of one primary.
#[derive(Clone, Copy, Debug, Default)]
struct Gauges {
    used: u64,
    /// None where nothing leaves it.
    mark: Option<u64>,
    keys: u64,
    /// Writes are to wait for room.
    is_crowded: bool,
    /// Writes are to be refused.
    is_full: bool,
}

/// What the evictors of all primaries go by.
#[derive(Debug)]
struct Shared {
    cache: Arc<Cache>,
    rules: Cell<Option<CacheRules>>,
    /// This proxy holds the lease.
    is_holder: Cell<bool>,
    gauges: RefCell<BTreeMap<Option<Node>, Gauges>>,
}

impl Shared {
    /// From where on keys leave a server that has this `maxmemory`; none where none do.
    fn mark(&self, max_memory: u64) -> Option<u64> {
        self.rules.get()?.max_memory.mark(max_memory)
    }

    /// Nothing is known of it for a while.
    fn note_silence(&self, node: Option<Node>, errand: &Errand) {
        let mut was_short = false;
        if let Some(one) = self.gauges.borrow_mut().get_mut(&node) {
            was_short = one.is_crowded || one.is_full;
            (one.is_crowded, one.is_full) = (false, false);
        }
        if was_short {
            self.hold_back(errand);
        }
    }

    /// Has writes wait that go where it is crowded, and be refused where a server is full.
    fn hold_back(&self, errand: &Errand) {
        let all = self.gauges.borrow();
        let those = |is_so: fn(&Gauges) -> bool| -> BTreeSet<Option<Node>> {
            all.iter().filter(|(_, one)| is_so(one)).map(|(node, _)| *node).collect()
        };
        let (crowded, full) = (those(|one| one.is_crowded), those(|one| one.is_full));
        let lies_in = |nodes: &BTreeSet<Option<Node>>, slot| {
            !nodes.is_empty() && errand.node_with(slot).is_some_and(|node| nodes.contains(&node))
        };
        self.cache.set_crowded_in(|slot| lies_in(&crowded, slot));
        self.cache.set_full_in(|slot| lies_in(&full, slot));
    }

    fn note(&self, node: Option<Node>, gauges: Gauges, errand: &Errand) {
        let before = self.gauges.borrow_mut().insert(node, gauges);
        let before = before.unwrap_or_default();
        if (before.is_crowded, before.is_full) != (gauges.is_crowded, gauges.is_full) {
            self.hold_back(errand);
        }
        let all = self.gauges.borrow();
        let sum = |part: fn(&Gauges) -> u64| all.values().map(part).sum();
        let (mark, unlimited) = (sum(|one| one.mark.unwrap_or(0)), sum(|one| one.mark.is_none().into()));
        self.cache.set_gauges(sum(|one| one.used), mark, unlimited, sum(|one| one.keys));
        self.cache.popularity().follow_keys(self.cache.keys());
    }
}

async fn keep_for_ever(errand: Errand, config: Arc<Config>, cache: Arc<Cache>) {
    let mut holding = Holding::of(errand.with_env(|env| Lease::to_evict((env.nonces)())));
    let mut errand = errand.in_database(0);
    let shared =
        Rc::new(Shared { cache, rules: Cell::new(None), is_holder: Cell::new(false), gauges: RefCell::default() });
    let mut nodes: BTreeMap<Option<Node>, Running> = BTreeMap::new();
    let mut telling = None;
    loop {
        let rules = config.cache.rules.or_else(|| errand.with_env(|env| env.layout.cache()));
        shared.rules.set(rules);
        shared.cache.turn(rules.is_some(), rules.is_some_and(|rules| rules.plain_keys));
        if rules.is_some() {
            // Where its node is away, nobody has it and everybody knows as much.
            shared.is_holder.set(holding.hold(&mut errand).await.unwrap_or(false));
            shared.cache.set_now(errand.with_env(|env| env.now_ms));
            telling.get_or_insert_with(|| Running(spawn_local(knowledge::share(Rc::clone(&shared), errand.another()))));
            let wanted = errand.nodes();
            nodes.retain(|node, _| wanted.contains(node));
            shared.gauges.borrow_mut().retain(|node, _| wanted.contains(node));
            // Slots may have moved.
            shared.hold_back(&errand);
            for node in wanted {
                nodes.entry(node).or_insert_with(|| {
                    let errand = errand.another().at_node(node);
                    Running(spawn_local(node::keep(Rc::clone(&shared), node, errand)))
                });
            }
        } else {
            nodes.clear();
            telling = None;
            shared.is_holder.set(false);
        }
        shared.cache.show(rules.map(|rules| (rules.policy, shared.is_holder.get())));
        tokio::time::sleep(TICK).await;
    }
}

/// A task that ends when it is dropped.
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}
