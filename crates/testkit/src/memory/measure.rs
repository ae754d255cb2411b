//! A fresh server, loaded and weighed: `used_memory` after less before.
//!
//! Weighed the same way both times: over a new connection, when no other is open, every command has run
//! once (servers allocate a histogram for each command at its first call), no table of keys is being moved,
//! and the number has come out equal several times.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use keyfold_core::dialect::Dialect;
use keyfold_core::layout::Layout;
use keyfold_core::memory::{self, Allocator, Model};
use keyfold_core::record::SetsAs;
use keyfold_proxy::address::ServerAddress;
use keyfold_server::{Commands, Server as Connection};

use super::case::{Case, Data, EXPIRES_AT_MS, Record};
use crate::cluster::{self, Cluster};
use crate::random::Random;
use crate::server::Server;
use crate::servers::Binary;

/// Commands sent before their replies are read.
const BATCH: usize = 256;
/// Equal weights in a row that count as settled.
const EQUAL_WEIGHTS: usize = 4;
/// Between two weights.
const PAUSE: Duration = Duration::from_millis(15);
/// How long a server may take to settle: a table of a million buckets moves in some seconds.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// In cluster mode the timer lets slots' full tables grow, 16 slots of 16,384 each time, and 500 times a second.
const ROUND_OF_SLOTS: Duration = Duration::from_millis(2500);
/// By so much a node's weight changes while nothing happens: what its timers make and drop.
const NODE_STIRS_BYTES: u64 = 1536;

/// A case on one server.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What the model says.
    pub predicted: u64,
    /// What it takes.
    pub measured: u64,
    /// What the server allocates with.
    pub allocator: Allocator,
}

impl Measured {
    /// By how much the prediction is too high, in percent of what it takes.
    pub fn error_percent(&self) -> f64 {
        (self.predicted as f64 / self.measured as f64 - 1.0) * 100.0
    }
}

/// Predicts the case for this server, and loads it into a fresh one.
///
/// # Errors
/// Where the server doesn't do as it is told.
pub fn measure(binary: &Binary, case: &Case) -> anyhow::Result<Measured> {
    let started = start(binary, case)?;
    let (model, allocator) = model_for(started.server(), case)?;
    let measured = loaded_bytes(binary, started.server(), case, &[])?;
    Ok(Measured { predicted: case.predict(&model), measured, allocator })
}

/// What a fresh server takes for the case, and for what these commands write before it.
///
/// # Errors
/// Where the server doesn't do as it is told.
pub fn weigh_case(binary: &Binary, case: &Case, before: &[Vec<Vec<u8>>]) -> anyhow::Result<u64> {
    loaded_bytes(binary, start(binary, case)?.server(), case, before)
}

/// The model of a server of this kind, as it allocates, with the case's limits.
///
/// # Errors
/// Where the server doesn't do as it is told.
pub fn model_of(binary: &Binary, case: &Case) -> anyhow::Result<Model> {
    Ok(model_for(start(binary, case)?.server(), case)?.0)
}

/// A server that runs by itself, or as the only node of a cluster, with all slots.
enum Started {
    Alone(Server),
    Cluster(Cluster),
}

impl Started {
    fn server(&self) -> &Server {
        match self {
            Self::Alone(server) => server,
            Self::Cluster(cluster) => cluster.node(0).server(),
        }
    }
}

fn start(binary: &Binary, case: &Case) -> anyhow::Result<Started> {
    let limits = &case.limits;
    // By their names before 7.0, which work since.
    let (entries, value) = (limits.hash_entries.to_string(), limits.hash_value_bytes.to_string());
    let mut args = vec!["--hash-max-ziplist-entries", &entries, "--hash-max-ziplist-value", &value];
    // A quick timer, so that tables soon come to rest.
    args.extend(["--hz", "500"]);
    args.extend(binary.with_debug());
    if !case.in_cluster {
        return Ok(Started::Alone(binary.start(&args)?));
    }
    let args = args.into_iter().map(str::to_owned).collect();
    let cluster = Cluster::start(binary, 1, 0, &cluster::Options { args, ..Default::default() })?;
    Ok(Started::Cluster(cluster))
}

fn loaded_bytes(binary: &Binary, server: &Server, case: &Case, before: &[Vec<Vec<u8>>]) -> anyhow::Result<u64> {
    warm_up(binary, server)?;
    let empty = weigh(server, if case.in_cluster { NODE_STIRS_BYTES } else { 0 })?;
    load(server, case, before)?;
    let loaded = if case.in_cluster { weigh_all_slots(server)? } else { weigh(server, 0)? };
    Ok(loaded - empty)
}

fn connect(server: &Server) -> anyhow::Result<Connection> {
    Connection::connect_to_node(&server.url().parse::<ServerAddress>()?.into())
}

fn model_for(server: &Server, case: &Case) -> anyhow::Result<(Model, Allocator)> {
    let mut connection = connect(server)?;
    let info = connection.info("server")?;
    let which = memory::Server::from_info(info.text()).context("the server says no version")?;
    let stats: String = connection.ask(&[b"MEMORY", b"MALLOC-STATS"])?;
    let allocator = Allocator::from_malloc_stats(&stats).context("the server allocates without jemalloc")?;
    let model = Model::for_server(which).in_cluster_mode(memory::is_cluster_mode(info.text()));
    Ok((model.with_allocator(allocator).with_limits(case.limits), allocator))
}

/// Runs every command that is used later once, on keys of one slot.
fn warm_up(binary: &Binary, server: &Server) -> anyhow::Result<()> {
    let mut commands = Commands::default();
    commands.push(&[b"SET", b"{warm}", b"up", b"PXAT", EXPIRES_AT_MS.to_string().as_bytes()]);
    commands.push(&[b"HSET", b"{warm}:h", b"f", b"v"]);
    commands.push(&[b"SADD", b"{warm}:s", b"member"]);
    commands.push(&[b"DEL", b"{warm}", b"{warm}:h", b"{warm}:s"]);
    let mut connection = connect(server)?;
    connection.query_all::<()>(&commands)?;
    let (_, still) = binary.still_reply_buffers();
    if !still.is_empty() {
        let words: Vec<&[u8]> = still.iter().map(|word| word.as_bytes()).collect();
        connection.ask::<String>(&words)?;
    }
    drop(connection);
    weigh(server, NODE_STIRS_BYTES)?;
    Ok(())
}

/// `used_memory`, once it has settled: once it changes by no more than `stirs` bytes.
fn weigh(server: &Server, stirs: u64) -> anyhow::Result<u64> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    let (mut last, mut equal) = (0_u64, 0);
    while equal < EQUAL_WEIGHTS {
        ensure!(Instant::now() < deadline, "used_memory did not settle within {} s", SETTLED_WITHIN.as_secs());
        thread::sleep(PAUSE);
        let mut connection = connect(server)?;
        let tables: String = connection.ask(&[b"DEBUG", b"HTSTATS", b"0"])?;
        let used = connection.used_memory()?;
        equal = if used.abs_diff(last) <= stirs && !tables.contains("rehashing target") { equal + 1 } else { 0 };
        last = used;
    }
    Ok(last)
}

/// The same on a node of a cluster, once its timer has been at all slots and found nothing left to do.
fn weigh_all_slots(server: &Server) -> anyhow::Result<u64> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    let mut before = weigh(server, NODE_STIRS_BYTES)?;
    loop {
        thread::sleep(ROUND_OF_SLOTS);
        let now = weigh(server, NODE_STIRS_BYTES)?;
        if now.abs_diff(before) <= NODE_STIRS_BYTES {
            return Ok(now);
        }
        ensure!(Instant::now() < deadline, "the slots' tables did not settle within {} s", SETTLED_WITHIN.as_secs());
        before = now;
    }
}

fn load(server: &Server, case: &Case, before: &[Vec<Vec<u8>>]) -> anyhow::Result<()> {
    let (mut connection, mut commands) = (connect(server)?, Commands::default());
    let sets = SetsAs::of(Dialect::new(&connection.version().info(), false));
    let mut send = |args: &[&[u8]]| {
        commands.push(args);
        if commands.len() == BATCH {
            connection.query_all::<()>(&commands)?;
            commands.clear();
        }
        anyhow::Ok(())
    };
    for command in before {
        send(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    match &case.data {
        Data::Strings(records) => place(records, &Layout::default(), sets, &mut send)?,
        Data::Placed(records, layout) => place(records, layout, sets, &mut send)?,
        Data::Hashes(hashes) => {
            for (key, fields) in hashes {
                for field in fields {
                    send(&[b"HSET", key, &field.key, &field.value])?;
                }
            }
        }
        Data::Sets(sets) => {
            for (key, members) in sets {
                for member in members {
                    send(&[b"SADD", key, member])?;
                }
            }
        }
    }
    connection.query_all::<()>(&commands)?;
    Ok(())
}

/// Writes records where the layout places them.
fn place(
    records: &[Record],
    layout: &Layout,
    sets: SetsAs,
    mut send: impl FnMut(&[&[u8]]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut nonces = Random::new(6);
    for Record { key, value, expires } in records {
        let (place, expires_at_ms) = (layout.locate(key).place(), expires.then_some(EXPIRES_AT_MS));
        let writes = layout.physical_writes(sets, place.as_ref(), key, value, expires_at_ms, || nonces.bits());
        writes.iter().try_for_each(|write| write.command(&mut send))?;
    }
    Ok(())
}
