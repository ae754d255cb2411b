//! What it costs to keep a cache by the key, and how near to its mark memory stays while writes come in a burst.
//!
//! The cost: two keyfolds before one server, asked side by side, one of which counts how often keys are asked for, with a
//! mark that is out of reach.
//!
//! The burst: a server full to its mark, written to at a usual rate and then at ten times that, with its memory looked at
//! all the while. Keys are drawn from so many that its table of keys grows no more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_core::eviction::{ServerMemory, evicted_by_server};
use keyfold_core::layout::Layout;
use keyfold_core::resp::write_command;
use keyfold_core::server_info::info_text;
use keyfold_core::status::Status;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, Server, Wire};

use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, CLIENTS, LAYOUT};
use crate::report::Report;
use crate::side_by_side::contests;

/// At most so much of keyfold's time without it is wanted for requests to a cache.
const COST_GOAL: f64 = 1.05;
/// Out of reach.
const FAR: u64 = 1 << 40;

/// Keys are drawn from so many for each MiB of the cache.
const NUMBERS_A_MIB: u64 = 62_500;
/// In buckets, and longer than their layout's `value_limit`: spilled to keys of their own, of which each is looked at by itself.
const VALUE_BYTES: [usize; 2] = [56, 100];
/// It is full once so many keys left.
const FILLED: u64 = 50_000;
const PATIENCE: Duration = Duration::from_secs(600);
/// Writes a second.
const USUAL: u64 = 3_000;
const BURST: u64 = 10 * USUAL;
/// Until it is full.
const FILLING: u64 = 5 * BURST;
/// A hundredth above the mark.
const BURST_GOAL: f64 = 1.0;
/// Writes are sent so often.
const TICK: Duration = Duration::from_millis(10);

/// Measures both, and says which goals are missed.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if !redis_benchmark::is_there() {
        eprintln!("bench: redis-benchmark is not on PATH; what caches cost is not measured");
        return Ok(Vec::new());
    }
    let mut missed = cost(binary, options, report)?;
    missed.extend(burst(binary, options, report)?);
    Ok(missed)
}

fn cost(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    let server = binary.start(&[])?;
    server.put_in_force(&Layout::parse_file(LAYOUT)?)?;
    let proxies = [Proxy::beside(&server)?, Proxy::keeping(&server, FAR)?];
    let targets = proxies.each_ref().map(Proxy::target);
    let title = format!(
        "keyfold without and with a cache to keep, both at once, thousand requests a second and keyfold's CPU µs a request, \
         {CLIENTS} clients each, {} rounds",
        options.rounds
    );
    let mut table = Table::titled(title, &COLUMNS);
    let mut missed = Vec::new();
    for contest in contests(&targets, options, |round| round())? {
        let (verdict, why) = contest.verdict(1, COST_GOAL, "a cache costs")?;
        missed.extend(why);
        table.row(contest.cells().into_iter().chain(verdict).collect());
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

const COLUMNS: [&str; 8] = ["command", "pipeline", "without", "with", "CPU, without", "with", "with/without", "median"];

fn burst(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    let title = format!(
        "memory of a cache of {} MiB at its mark, {USUAL} and then {BURST} writes a second, and keyfold's own memory; values \
         of {} bytes are spilled",
        options.cache_mib, VALUE_BYTES[1]
    );
    let columns = [
        "value bytes",
        "keys",
        "writes/s",
        "written",
        "refused",
        "most above the mark, %",
        "evicted",
        "by the server",
        "counters, KiB",
        "keyfold, KiB",
        "of the cache, %",
    ];
    let mut table = Table::titled(title, &columns);
    let mut missed = Vec::new();
    for value_bytes in VALUE_BYTES {
        let mut cache = Kept::start(binary, value_bytes, options.cache_mib)?;
        for rate in [USUAL, BURST] {
            let before = cache.evicted()?;
            let (sent, above) = cache.watched(rate, Duration::from_secs(if options.quick { 1 } else { 10 }))?;
            let [evicted, by_server] = cache.evicted()?;
            let (evicted, by_server) = (evicted - before[0], by_server - before[1]);
            if above > BURST_GOAL || sent.refused > 0 || by_server > 0 {
                missed.push(format!(
                    "{rate} writes a second of {value_bytes} bytes: {above:.2} % above the mark, {} refused, {by_server} \
                     evicted by the server",
                    sent.refused
                ));
            }
            let (kept, resident) = (cache.status()?.cache.context("it keeps no cache")?, cache.proxy.resident_bytes()?);
            #[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
            let share = resident as f64 / (options.cache_mib << 20) as f64 * 100.0;
            let counts = [value_bytes as u64, kept.keys, rate, sent.written, sent.refused].map(Cell::Whole);
            let seen = [Cell::Number(above, 2), Cell::Whole(evicted), Cell::Whole(by_server)];
            let own = [Cell::Whole(kept.counters_bytes >> 10), Cell::Whole(resident >> 10), Cell::Number(share, 2)];
            table.row(counts.into_iter().chain(seen).chain(own).collect());
        }
    }
    report.add(&binary.name(), &table);
    Ok(missed)
}

/// A server that a keyfold keeps at its mark.
struct Kept {
    server: Server,
    proxy: Proxy,
    mark: u64,
    value: Vec<u8>,
    /// From how many keys are drawn.
    numbers: u64,
    draws: u64,
}

impl Kept {
    /// One of so many MiB that is full.
    fn start(binary: &Binary, value_bytes: usize, mib: u64) -> anyhow::Result<Self> {
        let server = binary.start(&["--maxmemory-policy", "allkeys-lru"])?;
        server.put_in_force(&Layout::parse_file(LAYOUT)?)?;
        let mark = counted(&mut server.connect()?)? + (mib << 20);
        let max = mark + mark / 10;
        server.connect()?.call(&[b"CONFIG", b"SET", b"maxmemory", max.to_string().as_bytes()])?;
        let proxy = Proxy::keeping(&server, mark)?;
        let (value, numbers) = (vec![b'v'; value_bytes], mib * NUMBERS_A_MIB);
        let mut kept = Self { server, proxy, mark, value, numbers, draws: 0 };
        let deadline = Instant::now() + PATIENCE;
        while kept.evicted()?[0] < FILLED {
            anyhow::ensure!(Instant::now() < deadline, "the cache doesn't become full");
            kept.write_at(FILLING, Duration::from_secs(1))?;
        }
        // What is above the mark by then leaves.
        kept.write_at(USUAL, Duration::from_secs(2))?;
        Ok(kept)
    }

    fn status(&self) -> anyhow::Result<Status> {
        let reply = self.proxy.connect()?.call(&[b"INFO", b"keyfold"])?;
        Status::read_info(&info_text(&reply)).context("keyfold doesn't say how it fares")
    }

    /// What keyfold has evicted, and the server by itself.
    fn evicted(&self) -> anyhow::Result<[u64; 2]> {
        let by_keyfold = self.status()?.namespaces.iter().map(|namespace| namespace.evicted).sum();
        let reply = self.server.connect()?.call(&[b"INFO", b"stats"])?;
        let by_server = evicted_by_server(&info_text(&reply)).context("the server doesn't say what it evicted")?;
        Ok([by_keyfold, by_server])
    }

    /// Writes while memory is looked at; how far it was above the mark at most, in percent.
    fn watched(&mut self, rate: u64, time: Duration) -> anyhow::Result<(Sent, f64)> {
        let (mut gauge, is_over) = (self.server.connect()?, AtomicBool::new(false));
        let (sent, most) = thread::scope(|scope| {
            let watcher = scope.spawn(|| most_counted(&mut gauge, &is_over));
            let sent = self.write_at(rate, time);
            is_over.store(true, Ordering::Relaxed);
            (sent, watcher.join())
        });
        let most = most.map_err(|_| anyhow::anyhow!("whoever looks at memory came to an end"))??;
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
        let above = (most as f64 / self.mark as f64 - 1.0) * 100.0;
        Ok((sent?, above))
    }

    /// Writes random keys at this rate; what is late is sent at once.
    fn write_at(&mut self, rate: u64, time: Duration) -> anyhow::Result<Sent> {
        let mut wire = self.proxy.connect()?;
        let (begun, mut sent, mut refused) = (Instant::now(), 0, 0);
        while begun.elapsed() < time {
            let due = u64::try_from(begun.elapsed().as_micros())? * rate / 1_000_000;
            let mut commands = Vec::new();
            for _ in sent..due {
                self.draws += 1;
                let key = format!("key:{:012}", Random::nth(self.draws) % self.numbers);
                write_command(&mut commands, &[b"SET", key.as_bytes(), &self.value]);
            }
            wire.send_bytes(&commands)?;
            for _ in sent..due {
                match wire.reply()?.as_slice() {
                    b"+OK\r\n" => {}
                    reply if reply.starts_with(b"-OOM") => refused += 1,
                    other => anyhow::bail!("SET is answered with {}", other.escape_ascii()),
                }
            }
            sent = due;
            thread::sleep(TICK);
        }
        Ok(Sent { written: sent - refused, refused })
    }
}

/// What came of writes.
struct Sent {
    written: u64,
    refused: u64,
}

/// The most that the server counted of its memory until it is over.
fn most_counted(gauge: &mut Wire, is_over: &AtomicBool) -> anyhow::Result<u64> {
    let mut most = 0;
    while !is_over.load(Ordering::Relaxed) {
        most = most.max(counted(gauge)?);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(most)
}

/// What the server counts of its memory.
fn counted(wire: &mut Wire) -> anyhow::Result<u64> {
    let reply = wire.call(&[b"INFO", b"memory"])?;
    Ok(ServerMemory::read(&info_text(&reply)).context("the server says nothing of its memory")?.counted)
}
