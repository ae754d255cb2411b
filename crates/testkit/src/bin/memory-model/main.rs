//! Writes `docs/memory-model.md`: the memory model against every server at hand.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use keyfold_report::number::count;
use keyfold_testkit::cluster::SLOTS;
use keyfold_testkit::memory::{Case, Measured, case, measure, real};
use keyfold_testkit::{Binary, found};

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
}

struct Row {
    server: String,
    case: String,
    records: usize,
    measured: Measured,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let alone = if options.only_cluster { Vec::new() } else { measure_alone(&options)? };
    let in_cluster = measure_in_cluster(&options)?;
    let page = page(&alone, &in_cluster);
    print!("{page}");
    if options.is_default() {
        std::fs::write(Path::new(DOCUMENT), page)?;
    }
    let is_off = |row: &&Row| row.measured.error_percent().abs() > TOLERANCE_PERCENT;
    let off = alone.iter().chain(&in_cluster).filter(is_off).count();
    eprintln!("{off} of {} predictions are off by more than {TOLERANCE_PERCENT}%", alone.len() + in_cluster.len());
    Ok(ExitCode::from(u8::from(off > 0)))
}

fn measure_alone(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in options.sizes.iter().flat_map(|size| case::seeded(*size)) {
        measure_everywhere(&case, options, &mut rows)?;
    }
    match real::directory().filter(|_| !options.no_real) {
        Some(directory) => {
            for cases in real::cases(&directory, usize::MAX) {
                for case in cases? {
                    measure_everywhere(&case, options, &mut rows)?;
                }
            }
        }
        None => eprintln!("real data is not measured: no directory, or told not to"),
    }
    Ok(rows)
}

fn measure_in_cluster(options: &Options) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for size in &options.cluster_sizes {
        let cases = match *size {
            0..=MANY_RECORDS => case::seeded_in_cluster(*size),
            _ => case::ints_and_uuids_in_cluster(*size, false),
        };
        for case in cases {
            measure_everywhere(&case, options, &mut rows)?;
        }
    }
    Ok(rows)
}

fn measure_everywhere(case: &Case, options: &Options, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    for binary in found().iter().filter(|binary| options.wants(case, binary)) {
        let measured = measure(binary, case)?;
        eprintln!("{:14} {:36} {:>8} {:>7.2}%", binary.name(), case.name, case.records, measured.error_percent());
        rows.push(Row { server: binary.name(), case: case.name.clone(), records: case.records, measured });
    }
    Ok(())
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
    rows.sort_by(|a, b| b.measured.error_percent().abs().total_cmp(&a.measured.error_percent().abs()));
    let mut table = COLUMNS.to_owned();
    for Row { server, case, records, measured } in rows {
        let Measured { predicted, measured: bytes, allocator } = measured;
        let jemalloc = format!("{}{}", allocator.quantum_bytes, if allocator.large_in_pages { ", pages" } else { "" });
        let (records, predicted, bytes) = (count(*records as u64), count(*predicted), count(*bytes));
        let error = measured.error_percent();
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
            row.map_or(String::new(), |row| format!("{:.1}", row.measured.measured as f64 / *records as f64))
        };
        let both = |kind: &str| [bytes(&format!("{kind}, plain")), bytes(&format!("{kind}, folded"))].join(" → ");
        let (ints, uuids) = (both("int → int"), both("uuid → 24 letters"));
        let slot = *records as f64 / f64::from(SLOTS);
        let _ = writeln!(table, "| {server} | {} | {slot:.1} | {ints} | {uuids} |", count(*records as u64));
    }
    table
}
