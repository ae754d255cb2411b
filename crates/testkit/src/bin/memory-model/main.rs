//! Writes `docs/memory-model.md`: the memory model against every server at hand.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use keyfold_report::number::count;
use keyfold_testkit::memory::{Case, Measured, case, measure, real};
use keyfold_testkit::{Binary, found};

const SIZES: [usize; 3] = [1_000, 50_000, 500_000];
const TOLERANCE_PERCENT: f64 = 2.0;
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/memory-model.md");

const HEAD: &str = "# The memory model against servers

Written by `make memory-model`; not by hand. `used_memory` after a case was loaded into a fresh server, less
before, against what `crates/core/src/memory` predicts; the largest errors first. *Plain* is one key a record;
*folded* is hashes of about 100 records, as a layout places them, values over its limit spilled.
The last column is jemalloc's quantum in bytes, with *pages* where large allocations take whole pages.

| server | set | records | predicted, bytes | measured, bytes | error, % | jemalloc |
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
    let mut rows = Vec::new();
    for size in &options.sizes {
        for case in case::seeded(*size) {
            measure_everywhere(&case, &options, &mut rows)?;
        }
    }
    match real::directory().filter(|_| !options.no_real) {
        Some(directory) => {
            for cases in real::cases(&directory, usize::MAX) {
                for case in cases? {
                    measure_everywhere(&case, &options, &mut rows)?;
                }
            }
        }
        None => eprintln!("real data is not measured: no directory, or told not to"),
    }
    rows.sort_by(|a, b| b.measured.error_percent().abs().total_cmp(&a.measured.error_percent().abs()));
    let table = table(&rows);
    print!("{table}");
    if options.is_default() {
        std::fs::write(Path::new(DOCUMENT), table)?;
    }
    let off = rows.iter().filter(|row| row.measured.error_percent().abs() > TOLERANCE_PERCENT).count();
    eprintln!("{} of {} predictions are off by more than {TOLERANCE_PERCENT}%", off, rows.len());
    Ok(ExitCode::from(u8::from(off > 0)))
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
        self.only.is_none() && self.sizes == SIZES && !self.no_real
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = HEAD.to_owned();
    for Row { server, case, records, measured } in rows {
        let Measured { predicted, measured: bytes, allocator } = measured;
        let jemalloc = format!("{}{}", allocator.quantum_bytes, if allocator.large_in_pages { ", pages" } else { "" });
        let (records, predicted, bytes) = (count(*records as u64), count(*predicted), count(*bytes));
        let error = measured.error_percent();
        let _ = writeln!(table, "| {server} | {case} | {records} | {predicted} | {bytes} | {error:+.2} | {jemalloc} |");
    }
    table
}
