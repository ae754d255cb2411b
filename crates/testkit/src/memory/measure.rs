//! A fresh server, loaded and weighed: `used_memory` after less before.
//!
//! Weighed the same way both times: over a new connection, when no other is open, every command has run
//! once (servers allocate a histogram for each command at its first call), no table of keys is being moved,
//! and the number has come out equal several times.

use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::layout::Layout;
use keyfold_core::memory::{self, Allocator, Model};
use keyfold_core::resp::write_command;

use super::case::{Case, Data, EXPIRES_AT_MS, Record};
use crate::random::Random;
use crate::reply::Value;
use crate::server::{Server, StartError};
use crate::servers::{Binary, Flavor, Version};
use crate::wire::{Wire, WireError};

/// Commands sent before their replies are read.
const BATCH: usize = 256;
/// Equal weights in a row that count as settled.
const EQUAL_WEIGHTS: usize = 4;
/// Between two weights.
const PAUSE: Duration = Duration::from_millis(15);
/// How long a server may take to settle: a table of a million buckets moves in some seconds.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The connection failed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The server answered something else than asked for.
    #[error("unexpected answer: {0}")]
    Answer(String),
    /// It did not come to rest.
    #[error("used_memory did not settle within {} s", SETTLED_WITHIN.as_secs())]
    Restless,
}

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
pub fn measure(binary: &Binary, case: &Case) -> Result<Measured, MeasureError> {
    let server = start(binary, case)?;
    let allocator = allocator_of(&server)?;
    let model = model_for(&server).with_allocator(allocator).with_limits(case.limits);
    let measured = loaded_bytes(&server, case, &[])?;
    Ok(Measured { predicted: case.predict(&model), measured, allocator })
}

/// What a fresh server takes for the case, and for what these commands write before it.
///
/// # Errors
/// Where the server doesn't do as it is told.
pub fn weigh_case(binary: &Binary, case: &Case, before: &[Vec<Vec<u8>>]) -> Result<u64, MeasureError> {
    loaded_bytes(&start(binary, case)?, case, before)
}

/// The model of a server of this kind, as it allocates, with the case's limits.
///
/// # Errors
/// Where the server doesn't do as it is told.
pub fn model_of(binary: &Binary, case: &Case) -> Result<Model, MeasureError> {
    let server = start(binary, case)?;
    Ok(model_for(&server).with_allocator(allocator_of(&server)?).with_limits(case.limits))
}

fn start(binary: &Binary, case: &Case) -> Result<Server, MeasureError> {
    let limits = &case.limits;
    // By their names before 7.0, which work since.
    let (entries, value) = (limits.hash_entries.to_string(), limits.hash_value_bytes.to_string());
    let mut args = vec!["--hash-max-ziplist-entries", &entries, "--hash-max-ziplist-value", &value];
    // A quick timer, so that tables soon come to rest.
    args.extend(["--hz", "500"]);
    // Redis 6.2 knows no such setting, and needs none.
    if binary.version().major >= 7 {
        args.extend(["--enable-debug-command", "yes"]);
    }
    Ok(binary.start(&args)?)
}

fn loaded_bytes(server: &Server, case: &Case, before: &[Vec<Vec<u8>>]) -> Result<u64, MeasureError> {
    warm_up(server)?;
    let empty = weigh(server)?;
    load(server, case, before)?;
    Ok(weigh(server)? - empty)
}

fn model_for(server: &Server) -> Model {
    let Version { major, minor, .. } = server.version();
    Model::for_server(match server.flavor() {
        Flavor::Redis => memory::Server::redis(major, minor),
        Flavor::Valkey => memory::Server::valkey(major, minor),
    })
}

fn allocator_of(server: &Server) -> Result<Allocator, MeasureError> {
    let stats = text(&mut server.connect()?, &[b"MEMORY", b"MALLOC-STATS"])?;
    Allocator::from_malloc_stats(&stats)
        .ok_or_else(|| MeasureError::Answer(format!("no jemalloc: {}", stats.lines().next().unwrap_or(""))))
}

/// Runs every command that is used later once.
fn warm_up(server: &Server) -> Result<(), MeasureError> {
    let mut wire = server.connect()?;
    wire.call(&[b"SET", b"warm", b"up", b"PXAT", EXPIRES_AT_MS.to_string().as_bytes()])?;
    wire.call(&[b"HSET", b"warm:h", b"f", b"v"])?;
    wire.call(&[b"SADD", b"warm:s", b"member"])?;
    wire.call(&[b"DEL", b"warm", b"warm:h", b"warm:s"])?;
    weigh(server)?;
    Ok(())
}

/// `used_memory`, once it has settled.
fn weigh(server: &Server) -> Result<u64, MeasureError> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    let (mut last, mut equal) = (0, 0);
    while equal < EQUAL_WEIGHTS {
        if Instant::now() > deadline {
            return Err(MeasureError::Restless);
        }
        thread::sleep(PAUSE);
        let mut wire = server.connect()?;
        let moving = text(&mut wire, &[b"DEBUG", b"HTSTATS", b"0"])?.contains("rehashing target");
        let info = text(&mut wire, &[b"INFO", b"memory"])?;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        let used = used.ok_or(MeasureError::Answer(info))?;
        equal = if used == last && !moving { equal + 1 } else { 0 };
        last = used;
    }
    Ok(last)
}

fn text(wire: &mut Wire, args: &[&[u8]]) -> Result<String, MeasureError> {
    let reply = wire.ask(args)?;
    let bytes = reply.bytes().ok_or_else(|| MeasureError::Answer(format!("{reply:?}")))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn load(server: &Server, case: &Case, before: &[Vec<Vec<u8>>]) -> Result<(), MeasureError> {
    let mut pipeline = Pipeline { wire: server.connect()?, requests: Vec::new(), waiting: 0 };
    for command in before {
        pipeline.send(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    match &case.data {
        Data::Strings(records) => {
            for Record { key, value, expires } in records {
                pipeline.set(key, value, *expires)?;
            }
        }
        Data::Placed(records, layout) => {
            let mut nonces = Random::new(6);
            for record in records {
                pipeline.place(record, layout, &mut nonces)?;
            }
        }
        Data::Hashes(hashes) => {
            for (key, fields) in hashes {
                for field in fields {
                    pipeline.send(&[b"HSET", key, &field.key, &field.value])?;
                }
            }
        }
        Data::Sets(sets) => {
            for (key, members) in sets {
                for member in members {
                    pipeline.send(&[b"SADD", key, member])?;
                }
            }
        }
    }
    pipeline.finish()
}

/// A connection on which commands go in batches.
struct Pipeline {
    wire: Wire,
    requests: Vec<u8>,
    waiting: usize,
}

impl Pipeline {
    fn send(&mut self, args: &[&[u8]]) -> Result<(), MeasureError> {
        write_command(&mut self.requests, args);
        self.waiting += 1;
        if self.waiting == BATCH { self.finish() } else { Ok(()) }
    }

    fn set(&mut self, key: &[u8], value: &[u8], expires: bool) -> Result<(), MeasureError> {
        if expires {
            self.send(&[b"SET", key, value, b"PXAT", EXPIRES_AT_MS.to_string().as_bytes()])
        } else {
            self.send(&[b"SET", key, value])
        }
    }

    /// Writes a record where the layout places it.
    fn place(&mut self, record: &Record, layout: &Layout, nonces: &mut Random) -> Result<(), MeasureError> {
        let Record { key, value, expires } = record;
        let (place, expires_at_ms) = (layout.locate(key).place(), expires.then_some(EXPIRES_AT_MS));
        let writes = layout.physical_writes(place.as_ref(), key, value, expires_at_ms, || nonces.bits());
        writes.iter().try_for_each(|write| write.command(|args| self.send(args)))
    }

    /// Sends what is left and reads all replies.
    fn finish(&mut self) -> Result<(), MeasureError> {
        self.wire.send_bytes(&self.requests)?;
        self.requests.clear();
        for _ in 0..std::mem::take(&mut self.waiting) {
            let reply = self.wire.reply()?;
            if reply.starts_with(b"-") {
                return Err(MeasureError::Answer(format!("{:?}", Value::parse(&reply))));
            }
        }
        Ok(())
    }
}
