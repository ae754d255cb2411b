//! One primary: its memory, and what leaves.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use keyfold_core::cluster::Node;
use keyfold_core::eviction::{Batch, Evictor, Governor, Order, ServerMemory, USUAL_SHARE, evicted_by_server};
use keyfold_core::layout::Revision;
use keyfold_core::resp::{Reply, write_command};
use keyfold_core::server_info::info_text;
use tokio::time::Instant;

use super::{Gauges, Shared};
use crate::upstream::{Errand, LinkError};

/// How often it is asked which databases have keys, how many, and what the server has evicted itself.
const SURVEY_EVERY: Duration = Duration::from_secs(1);

/// What is come by between two surveys where nothing has to leave: so it is known what there is before it has to.
const IDLE_LOOKS: usize = 4;

/// A rest is looked at anew after so long, whether much was written meanwhile.
const REST_SLICE: Duration = Duration::from_millis(2);
/// The same where memory is far from full.
const CALM_SLICE: Duration = Duration::from_millis(20);

/// Of what is come by such a share leaves; more where memory is above its mark, by so many parts of it.
const SHARES: [(u64, f32); 3] = [(50, 0.5), (100, 0.25), (400, 0.125)];

/// Buckets that are looked at in a batch at most, and at most where memory is above its mark.
const MOST_LOOKS: usize = 8;
const MOST_LOOKS_ABOVE: usize = 24;

/// What is chosen to leave may be more than is to be freed by such a part of that.
const SLACK: u64 = 4;

/// Bytes that a look frees, before it is known.
const USUAL_FREED: f64 = 256.0;

/// Keys that are looked at in a batch at least: the ones that are worth the least are found among some.
const LEAST_KEYS: f64 = 32.0;

/// After so many batches by which nothing left, most likely nothing may: the server is left alone in between.
const FRUITLESS: u32 = 64;

/// From so many parts of the mark above it nobody waits for the lease: writes would be refused where nothing leaves.
const FAR_ABOVE: u64 = 100;

/// A server that evicts by itself is told of at most as often as that.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// After a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Why it is begun anew.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("{0}")]
    Server(String),
    #[error("the layout has changed")]
    LayoutChanged,
}

/// Keeps one primary within its memory for ever.
pub(super) async fn keep(shared: Rc<Shared>, node: Option<Node>, errand: Errand) {
    let mut keeper = Keeper::new(shared, node, errand);
    let mut told: Option<Instant> = None;
    loop {
        if let Err(reason) = keeper.go_on().await {
            // What has been looked at is of no use by another layout.
            tracing::debug!(%reason, "evicting was broken off; it begins again");
            if let Broken::Server(refusal) = &reason
                && told.is_none_or(|at| at.elapsed() > WARN_EVERY)
            {
                told = Some(Instant::now());
                tracing::warn!(
                    refusal,
                    server = %keeper.errand.address(),
                    "the server refuses what has keys leave, and its memory may grow beyond max_memory; where that is for want of \
                     rights, give keyfold's user there what it needs (`+@all ~* &*`)"
                );
            }
            keeper.databases.clear();
            keeper.surveyed = None;
            if let Broken::LayoutChanged = reason {
                continue;
            }
            keeper.shared.note_silence(keeper.node, &keeper.errand);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The hand over one database.
struct Hand {
    errand: Errand,
    evictor: Evictor,
    /// Names that the server has there.
    names: u64,
}

struct Keeper {
    shared: Rc<Shared>,
    node: Option<Node>,
    errand: Errand,
    governor: Governor,
    databases: BTreeMap<u32, Hand>,
    surveyed: Option<Instant>,
    /// The layout that the hands go by, and whether they come by plain keys.
    layout: Revision,
    with_plain: bool,
    started: Instant,
    /// About what a look frees, and how many keys it comes by.
    freed_by_look: f64,
    keys_by_look: f64,
    freed: u64,
    evicted_by_server: Option<u64>,
    warned: Option<Instant>,
    has_no_mark: bool,
    turn: usize,
    /// Batches by which nothing left, one after the other.
    fruitless: u32,
}

impl Keeper {
    fn new(shared: Rc<Shared>, node: Option<Node>, errand: Errand) -> Self {
        Self {
            shared,
            node,
            errand: errand.in_database(0),
            governor: Governor::new(u64::MAX),
            databases: BTreeMap::new(),
            surveyed: None,
            layout: Revision::default(),
            with_plain: false,
            started: Instant::now(),
            freed_by_look: USUAL_FREED,
            keys_by_look: LEAST_KEYS,
            freed: 0,
            evicted_by_server: None,
            warned: None,
            has_no_mark: false,
            turn: 0,
            fruitless: 0,
        }
    }

    async fn go_on(&mut self) -> Result<(), Broken> {
        loop {
            let reply = self.errand.ask_one(|wire| write_command(wire, &ServerMemory::ASK)).await?;
            let mut memory = read_memory(&reply)?;
            let Some(mut order) = self.look(memory) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            self.survey().await?;
            while order.free_bytes > 0 && self.may_act(memory.counted) {
                let begun = Instant::now();
                memory = self.free(order, memory.counted).await?;
                let Some(next) = self.look(memory) else { break };
                order = next;
                if memory.counted <= self.governor.mark() {
                    // Clients have at least half of the server's time.
                    tokio::time::sleep(begun.elapsed()).await;
                }
                if self.fruitless > FRUITLESS {
                    tokio::time::sleep(CALM_SLICE).await;
                }
                self.survey().await?;
            }
            self.rest(order, memory.counted).await;
        }
    }

    /// Whether it is this proxy that evicts.
    fn may_act(&self, counted: u64) -> bool {
        self.shared.is_holder.get() || counted > self.governor.mark().saturating_add(self.governor.mark() / FAR_ABOVE)
    }

    /// What is to be done, as the server says this of its memory; none where there is no mark.
    fn look(&mut self, memory: ServerMemory) -> Option<Order> {
        let Some(mark) = self.shared.mark(memory.max) else {
            if !std::mem::replace(&mut self.has_no_mark, true) {
                tracing::warn!(
                    "nothing is evicted: max_memory is a share of the server's maxmemory, and that is 0: set it by CONFIG \
                     SET maxmemory, or write max_memory as bytes"
                );
            }
            self.shared.note(self.node, Gauges { used: memory.counted, ..Gauges::default() }, &self.errand);
            return None;
        };
        self.has_no_mark = false;
        self.governor.set_mark(mark);
        let now_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let order = self.governor.look(memory.counted, std::mem::take(&mut self.freed), now_us);
        let keys = self.databases.values().map(|hand| hand.evictor.keys(hand.names)).sum();
        let Order { is_crowded, is_full, .. } = order;
        let gauges = Gauges { used: memory.counted, mark: Some(mark), keys, is_crowded, is_full };
        self.shared.note(self.node, gauges, &self.errand);
        if is_crowded {
            self.shared.cache.give_room(order.allowance);
        }
        Some(order)
    }

    /// One batch; what the server says of its memory behind it.
    async fn free(&mut self, order: Order, counted: u64) -> Result<ServerMemory, Broken> {
        let mark = self.governor.mark();
        let above = counted.saturating_sub(mark);
        let is_above = above > 0;
        let share =
            SHARES.iter().find(|(part, _)| is_above && above >= mark / part).map_or(USUAL_SHARE, |(_, share)| *share);
        let most = if is_above { MOST_LOOKS_ABOVE } else { MOST_LOOKS };
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
        let looks = {
            let for_bytes = order.free_bytes as f64 / self.freed_by_look.max(1.0);
            let for_keys = LEAST_KEYS / self.keys_by_look.max(1.0);
            (for_bytes.max(for_keys).min(1e6) as usize + 1).min(most)
        };
        let (batch, memory) = self.look_on(looks, share, (order.free_bytes, counted)).await?;
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        let [freed_by_look, keys_by_look] =
            [batch.freed_bytes, batch.looked_at].map(|count| count as f64 / looks as f64);
        self.freed_by_look += (freed_by_look - self.freed_by_look) / 8.0;
        self.keys_by_look += (keys_by_look - self.keys_by_look) / 8.0;
        self.freed += batch.freed_bytes;
        self.fruitless = if batch.freed_bytes > 0 { 0 } else { self.fruitless.saturating_add(1) };
        Ok(memory)
    }

    /// The next hand goes on by so many looks. So many bytes were to be freed when the server counted so many.
    async fn look_on(
        &mut self,
        looks: usize,
        share: f32,
        (free_bytes, counted): (u64, u64),
    ) -> Result<(Batch, ServerMemory), Broken> {
        let count = self.databases.len();
        if count == 0 {
            // Keys may have come since it was asked which databases have some.
            self.surveyed = None;
            let reply = self.errand.ask_one(|wire| write_command(wire, &ServerMemory::ASK)).await?;
            tokio::time::sleep(REST_SLICE).await;
            return Ok((Batch::default(), read_memory(&reply)?));
        }
        self.turn = (self.turn + 1) % count;
        let layout = self.layout;
        let cache = std::sync::Arc::clone(&self.shared.cache);
        let Some(hand) = self.databases.values_mut().nth(self.turn) else { return Err(Broken::LayoutChanged) };
        hand.errand.connect().await?;
        let _busy = hand.errand.begin().await;
        if hand.errand.with_env(|env| env.layout.revision()) != layout {
            return Err(Broken::LayoutChanged);
        }
        hand.evictor.publish(hand.errand.notices());
        let mut commands = Vec::new();
        let removals = hand.evictor.remove(&mut commands);
        // Before the answers to the looks: what these take in the server until they are sent counts as its memory.
        write_command(&mut commands, &ServerMemory::ASK);
        let looks = hand.evictor.look(looks, share, &mut commands);
        let mut replies = hand.errand.request(&commands, removals + 1 + looks).await?;
        let memory = read_memory(&replies.remove(removals))?;
        // What was chosen before has left by now.
        let wanted = free_bytes.saturating_add(memory.counted).saturating_sub(counted);
        let wanted = wanted.saturating_add(wanted / SLACK);
        let batch = hand.errand.with_env(|env| hand.evictor.handle_replies(&replies, wanted, &cache, env));
        Ok((batch.map_err(Broken::Server)?, memory))
    }

    /// Rests until the server is to be asked again, or much was written.
    async fn rest(&mut self, order: Order, counted: u64) {
        self.shared.cache.allow(order.allowance);
        let begun = Instant::now();
        let rest = match order.free_bytes {
            0 => Duration::from_micros(order.rest_us),
            // Another one evicts.
            _ => CALM_SLICE,
        };
        let is_calm = counted < self.governor.mark() / 10 * 9;
        let slice = if is_calm { CALM_SLICE } else { REST_SLICE };
        loop {
            let left = rest.saturating_sub(begun.elapsed());
            if left.is_zero() || self.shared.cache.is_due() {
                // So often at most.
                tokio::time::sleep(Duration::from_micros(500)).await;
                return;
            }
            tokio::time::sleep(left.min(slice)).await;
        }
    }

    /// From time to time: which databases have keys, and how many; what the server has evicted; and a look at what there is.
    async fn survey(&mut self) -> Result<(), Broken> {
        if self.surveyed.is_some_and(|at| at.elapsed() < SURVEY_EVERY) {
            return Ok(());
        }
        self.surveyed = Some(Instant::now());
        let with_plain = self.shared.cache.has_plain_keys();
        let layout = self.errand.with_env(|env| env.layout.revision());
        if (layout, with_plain) != (self.layout, self.with_plain) {
            self.databases.clear();
            (self.layout, self.with_plain) = (layout, with_plain);
        }
        let wanted = self.errand.databases().await?;
        self.databases.retain(|database, _| wanted.contains(database));
        for database in wanted {
            let hand = self.databases.entry(database).or_insert_with(|| {
                let seed = self.errand.with_env(|env| (env.nonces)());
                let evictor = Evictor::new(with_plain, seed);
                Hand {
                    errand: self.errand.another().at_node(self.node).in_database(database),
                    evictor: if self.node.is_some() { evictor.on_node() } else { evictor },
                    names: 0,
                }
            });
            let reply = hand.errand.ask_one(|wire| write_command(wire, &[b"DBSIZE"])).await?;
            if let Ok(Reply::Integer(names)) = Reply::parse(&reply) {
                hand.names = u64::try_from(names).unwrap_or(0);
            }
        }
        self.count_by_server().await?;
        if !self.databases.is_empty() {
            self.look_on(IDLE_LOOKS, 0.0, (0, 0)).await?;
        }
        Ok(())
    }

    async fn count_by_server(&mut self) -> Result<(), Broken> {
        let reply = self.errand.ask_one(|wire| write_command(wire, &[b"INFO", b"stats"])).await?;
        let evicted = evicted_by_server(&info_text(&reply));
        // A server that was started anew counts from 0.
        let more = evicted.zip(self.evicted_by_server).map_or(0, |(now, before)| now.saturating_sub(before));
        self.evicted_by_server = evicted;
        if more > 0 {
            self.shared.cache.count_by_server(more);
            if self.warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
                self.warned = Some(Instant::now());
                tracing::warn!(
                    evicted = more,
                    server = %self.errand.address(),
                    "the server evicts keys by itself, and a bucket is one: set its maxmemory higher, by a tenth above \
                     max_memory, so that keyfold, which evicts by the key, comes first"
                );
            }
        }
        Ok(())
    }
}

fn read_memory(reply: &[u8]) -> Result<ServerMemory, Broken> {
    let refused = || Broken::Server(format!("INFO memory: {}", String::from_utf8_lossy(reply).trim_end()));
    ServerMemory::read(&info_text(reply)).ok_or_else(refused)
}
