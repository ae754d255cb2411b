//! Writes `docs/memory-model.md`: the memory model against every server at hand.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use keyfold_core::memory::Allocator;
use keyfold_report::number::count;
use keyfold_testkit::cluster::SLOTS;
use keyfold_testkit::journal::Journal;
use keyfold_testkit::memory::{Case, Measured, case, measure, real};
use keyfold_testkit::{Binary, found};
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};

const SIZES: [usize; 3] = [1_000, 50_000, 500_000];
const CLUSTER_SIZES: [usize; 4] = [10_000, 100_000, 500_000, 2_000_000];
/// Of more records than this, a cluster is only measured with the two most usual kinds.
const MANY_RECORDS: usize = 1_000_000;
const TOLERANCE_PERCENT: f64 = 2.0;
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memory-model.md");

const HEAD: &str = "# The memory model against servers

Written by `make memory-model`; not by hand. `used_memory` after a case was loaded into a fresh server, less
before, against what `crates/core/src/memory` predicts; the largest errors first. *Plain* is one key a record;
*folded* is hashes of about 100 records, as a layout places them, values over its limit spilled.
The last column is jemalloc's quantum in bytes, with *pages* where large allocations take whole pages.

";

const CLUSTER_HEAD: &str = "
## In cluster mode

The same on the only node of a cluster, which has all 16,384 slots; *folded* is by slot (`cluster = true`), in as many
buckets in each slot as hold about 100 records, at the least one. What an empty node takes is not counted.

Bytes a record, measured, plain → folded; ints are `set-allBooksBelongToUser:1000000` → 31 bits, uuids `sess:<uuid>` → 24
letters, both without expiry:

";

const CLUSTER_TEXT: &str = "
Redis 7.0 has one table for all slots, and 16 bytes more in the entry of each key to find a slot's others. The others have a
table for each slot with keys: on Redis 8.0 with 2,400 bytes of counters in its head (`keysizes_hist`), 42 MB if every slot
has a key. Folded keys stay in their slots, so folding saves nothing of these heads; and where a slot has few keys, a
bucket costs about what it saves.

All that was measured, the largest errors first:

";

const COLUMNS: &str = "| server | set | records | predicted, bytes | measured, bytes | error, % | jemalloc |
| --- | --- | ---: | ---: | ---: | ---: | --- |
";

/// Writes `docs/memory-model.md`: the memory model against every server at hand. With any of these flags the table goes to
/// stdout only. Exits with 1 where a prediction is off by more than 2 %.
#[derive(Parser)]
struct Options {
    /// Cases whose name or server contains these words
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Sizes of the made-up cases; may be repeated
    #[arg(long = "records", value_name = "N", default_values_t = SIZES)]
    sizes: Vec<usize>,
    /// Sizes of the made-up cases in cluster mode; may be repeated
    #[arg(long = "cluster-records", value_name = "N", default_values_t = CLUSTER_SIZES)]
    cluster_sizes: Vec<usize>,
    /// Only cluster mode
    #[arg(long)]
    only_cluster: bool,
    /// Leave out real data
    #[arg(long)]
    no_real: bool,
    /// Where each measurement is noted once it is done; a run that ended early goes on from there, for as long as the
    /// program is the same
    #[arg(long, value_name = "FILE", default_value = "target/memory-model.jsonl")]
    results: PathBuf,
}

/// A case on one server, as the file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    /// Which program predicted and measured.
    program: String,
    server: String,
    case: String,
    in_cluster: bool,
    records: usize,
    predicted: u64,
    measured: u64,
    quantum_bytes: u64,
    large_in_pages: bool,
}

impl Row {
    fn measured(&self) -> Measured {
        let allocator = Allocator { quantum_bytes: self.quantum_bytes, large_in_pages: self.large_in_pages };
        Measured { predicted: self.predicted, measured: self.measured, allocator }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let mut bench = Bench::new(&options)?;
    let alone = if options.only_cluster { Vec::new() } else { bench.measure_alone()? };
    let in_cluster = bench.measure_in_cluster()?;
    let page = page(&alone, &in_cluster);
    print!("{page}");
    if options.is_default() {
        fs::write(Path::new(DOCUMENT), page)?;
    }
    let is_off = |row: &&Row| row.measured().error_percent().abs() > TOLERANCE_PERCENT;
    let off = alone.iter().chain(&in_cluster).filter(is_off).count();
    eprintln!("{off} of {} predictions are off by more than {TOLERANCE_PERCENT}%", alone.len() + in_cluster.len());
    Ok(ExitCode::from(u8::from(off > 0)))
}

/// Measures what isn't measured yet.
struct Bench<'a> {
    options: &'a Options,
    program: String,
    journal: Journal<Row>,
    known: Vec<Row>,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> anyhow::Result<Self> {
        let (journal, known) = Journal::open(&options.results)?;
        let digest = Sha1::digest(fs::read(env::current_exe()?)?);
        let program = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut bench = Self { options, program, journal, known };
        bench.known.retain(|row| row.program == bench.program);
        eprintln!("{} measurements are in {} already", bench.known.len(), bench.journal.path().display());
        Ok(bench)
    }

    fn measure_alone(&mut self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for case in self.options.sizes.iter().flat_map(|size| case::seeded(*size)) {
            self.measure_everywhere(&case, &mut rows)?;
        }
        match real::directory().filter(|_| !self.options.no_real) {
            Some(directory) => {
                for cases in real::cases(&directory, usize::MAX) {
                    for case in cases? {
                        self.measure_everywhere(&case, &mut rows)?;
                    }
                }
            }
            None => eprintln!("real data is not measured: no directory, or told not to"),
        }
        Ok(rows)
    }

    fn measure_in_cluster(&mut self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for size in &self.options.cluster_sizes {
            let cases = match *size {
                0..=MANY_RECORDS => case::seeded_in_cluster(*size),
                _ => case::ints_and_uuids_in_cluster(*size, false),
            };
            for case in cases {
                self.measure_everywhere(&case, &mut rows)?;
            }
        }
        Ok(rows)
    }

    fn measure_everywhere(&mut self, case: &Case, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        for binary in found().iter().filter(|binary| self.options.wants(case, binary)) {
            let row = self.measure(case, binary)?;
            let (name, error) = (&case.name, row.measured().error_percent());
            eprintln!("{:14} {name:36} {:>8} {error:>7.2}%", row.server, case.records);
            rows.push(row);
        }
        Ok(())
    }

    fn measure(&mut self, case: &Case, binary: &Binary) -> anyhow::Result<Row> {
        let (server, of) = (binary.name(), (&case.name, case.records, case.in_cluster));
        let is_this = |row: &&Row| row.server == server && (&row.case, row.records, row.in_cluster) == of;
        if let Some(known) = self.known.iter().find(is_this) {
            return Ok(known.clone());
        }
        let Measured { predicted, measured, allocator } = measure(binary, case)?;
        let row = Row {
            program: self.program.clone(),
            server,
            case: case.name.clone(),
            in_cluster: case.in_cluster,
            records: case.records,
            predicted,
            measured,
            quantum_bytes: allocator.quantum_bytes,
            large_in_pages: allocator.large_in_pages,
        };
        self.journal.add(&row)?;
        Ok(row)
    }
}

impl Options {
    fn wants(&self, case: &Case, binary: &Binary) -> bool {
        let has = |only: &String| case.name.contains(only.as_str()) || binary.name().contains(only.as_str());
        self.only.as_ref().is_none_or(has)
    }

    fn is_default(&self) -> bool {
        self.only.is_none()
            && self.sizes == SIZES
            && self.cluster_sizes == CLUSTER_SIZES
            && !self.only_cluster
            && !self.no_real
    }
}

fn page(alone: &[Row], in_cluster: &[Row]) -> String {
    [HEAD, &table(alone), CLUSTER_HEAD, &bytes_a_record(in_cluster), CLUSTER_TEXT, &table(in_cluster)].concat()
}

/// All rows, the largest errors first.
fn table(rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    let error = |row: &Row| row.measured().error_percent();
    rows.sort_by(|a, b| error(b).abs().total_cmp(&error(a).abs()));
    let mut table = COLUMNS.to_owned();
    for row in rows {
        let Row { server, case, quantum_bytes, .. } = row;
        let jemalloc = format!("{quantum_bytes}{}", if row.large_in_pages { ", pages" } else { "" });
        let (records, predicted, bytes) = (count(row.records as u64), count(row.predicted), count(row.measured));
        let error = error(row);
        let _ = writeln!(table, "| {server} | {case} | {records} | {predicted} | {bytes} | {error:+.2} | {jemalloc} |");
    }
    table
}

/// What a record takes plain and folded, by the number of records and by server.
fn bytes_a_record(rows: &[Row]) -> String {
    let mut table =
        "| server | records | keys a slot | ints | uuids |\n| --- | ---: | ---: | ---: | ---: |\n".to_owned();
    let plain = rows.iter().filter(|row| row.case == "int → int, plain");
    for Row { server, records, .. } in plain {
        let bytes = |case: &str| {
            let row = rows.iter().find(|row| (&row.server, row.records, row.case.as_str()) == (server, *records, case));
            row.map_or(String::new(), |row| format!("{:.1}", row.measured as f64 / *records as f64))
        };
        let both = |kind: &str| [bytes(&format!("{kind}, plain")), bytes(&format!("{kind}, folded"))].join(" → ");
        let (ints, uuids) = (both("int → int"), both("uuid → 24 letters"));
        let slot = *records as f64 / f64::from(SLOTS);
        let _ = writeln!(table, "| {server} | {} | {slot:.1} | {ints} | {uuids} |", count(*records as u64));
    }
    table
}
