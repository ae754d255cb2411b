//! Bytes a record: `used_memory` after minus before, over the number of records, plain and folded.
//!
//! Every figure has a fresh server. Plain records are written to it directly, folded ones through a proxy,
//! and all are read back that way and compared before the memory is read.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_lab::data_sets::records::{self, DataSet, Record, deflated};
use keyfold_lab::{Cell, Table, load};
use keyfold_proxy::address::ServerAddress;
use keyfold_server::{Server, memory};
use keyfold_testkit::Binary;

use crate::options::Options;
use crate::proxy::Proxy;
use crate::records as made_up;
use crate::report::Report;

/// A family of made-up keys.
struct Family {
    name: &'static str,
    record: fn(u64) -> Record,
    /// What at most a record is meant to cost, folded.
    goal_bytes: f64,
    keys: &'static str,
    bucket: Bucket,
    /// Other spans or counts to try.
    sweep: &'static [u64],
}

/// How a family is folded.
#[derive(Clone, Copy)]
enum Bucket {
    Span(u64),
    /// So many buckets for half a million records, and for other numbers as many as give the same mean.
    Count(u64),
}

impl Bucket {
    fn with(self, number: u64) -> Self {
        match self {
            Self::Span(_) => Self::Span(number),
            Self::Count(_) => Self::Count(number),
        }
    }

    fn rule(self, records: u64) -> String {
        match self {
            Self::Span(span) => format!("span = {span}"),
            Self::Count(count) => format!("count = {}", (count * records / 500_000).max(2)),
        }
    }
}

const FAMILIES: [Family; 3] = [
    Family {
        name: "set-allBooksBelongToUser:{id:int} → 31-bit int",
        record: made_up::books,
        goal_bytes: 11.0,
        keys: "set-allBooksBelongToUser:{id:int}",
        bucket: Bucket::Span(128),
        sweep: &[32, 64, 96, 112, 120, 126, 256, 512],
    },
    Family {
        name: "sess:{id:uuid} → 24 letters",
        record: made_up::sessions,
        goal_bytes: 50.0,
        keys: "sess:{id:uuid}",
        bucket: Bucket::Count(4096),
        sweep: &[1024, 2048, 3072, 3584, 5120, 6144, 8192, 16384],
    },
    Family {
        name: "set-allBooksBelongToUser:{id:int} → 31-bit int, TTL",
        record: made_up::books_with_ttl,
        goal_bytes: 18.0,
        keys: "set-allBooksBelongToUser:{id:int}",
        bucket: Bucket::Span(128),
        sweep: &[32, 64, 96, 112, 120, 126, 256, 512],
    },
];

/// Measures the families, and the files of `--data`.
pub(crate) fn measure_all(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let title = format!("memory, bytes a record, {} records, default settings", options.records);
    let columns = ["records", "bucket", "plain", "folded", "ratio", "goal", "buckets"];
    let mut table = Table::titled(title, &columns);
    for family in &FAMILIES {
        let records: Vec<Record> = (0..options.records).map(family.record).collect();
        let plain = measure(binary, None, &records)?;
        let sweep = if options.sweep { family.sweep } else { &[] };
        for bucket in std::iter::once(family.bucket).chain(sweep.iter().map(|number| family.bucket.with(*number))) {
            let rule = bucket.rule(options.records);
            let layout = format!("[[namespace]]\nkeys = \"{}\"\nbucket = {{ {rule} }}\n", family.keys);
            let folded = measure(binary, Some(&layout), &records)?;
            table.row(vec![
                family.name.into(),
                rule.into(),
                Cell::Number(plain.bytes_per_record, 1),
                Cell::Number(folded.bytes_per_record, 2),
                Cell::Number(plain.bytes_per_record / folded.bytes_per_record, 1),
                format!("≤ {}: {}", family.goal_bytes, verdict(folded.bytes_per_record <= family.goal_bytes)).into(),
                Cell::Whole(folded.keys),
            ]);
        }
    }
    report.add(&binary.name(), &table);
    if let Some(dir) = &options.data {
        measure_files(binary, dir, options, report)?;
    }
    Ok(())
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn measure_files(binary: &Binary, dir: &Path, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let columns = ["data", "records", "plain", "zlib", "folded", "zlib ratio", "folded ratio", "server setting"];
    let mut table = Table::titled("memory of real records, bytes a record", &columns);
    for path in data_files(dir)? {
        let DataSet { name, records } =
            records::read(&path, usize::MAX).with_context(|| format!("reading {}", path.display()))?;
        let layout = std::fs::read_to_string(options.layouts.join(format!("{name}.toml"))).ok();
        let settings = layout.as_deref().map(needed_settings).transpose()?.unwrap_or_default();
        let zipped =
            records.iter().map(|one| Record { value: deflated(&one.value), ..one.clone() }).collect::<Vec<_>>();
        let plain = measure(binary, None, &records)?.bytes_per_record;
        let zlib = measure(binary, None, &zipped)?.bytes_per_record;
        let folded = layout.map(|layout| measure(binary, Some(&layout), &records)).transpose()?;
        let folded = folded.map(|folded| folded.bytes_per_record);
        table.row(vec![
            name.into(),
            Cell::Whole(records.len() as u64),
            Cell::Number(plain, 1),
            Cell::Number(zlib, 1),
            folded.map_or(Cell::Nothing, |folded| Cell::Number(folded, 1)),
            Cell::Number(plain / zlib, 2),
            folded.map_or(Cell::Nothing, |folded| Cell::Number(plain / folded, 2)),
            settings.join(" ").into(),
        ]);
    }
    report.add(&binary.name(), &table);
    Ok(())
}

fn data_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|path| path.to_string_lossy().ends_with(".jsonl.gz"));
    files.sort();
    Ok(files)
}

/// The server's arguments without which a layout's buckets would not stay small.
fn needed_settings(layout: &str) -> anyhow::Result<Vec<String>> {
    let layout = Layout::parse_file(layout)?;
    let limits = layout.namespaces().iter().map(|namespace| namespace.value_limit.max(namespace.field_limit));
    let limit = limits.max().unwrap_or(0);
    // Redis before 7.0 knows only this name, and all others know it too.
    Ok(if limit > 64 { vec!["--hash-max-ziplist-value".to_owned(), limit.to_string()] } else { Vec::new() })
}

struct Measured {
    bytes_per_record: f64,
    keys: u64,
}

/// Writes records to a fresh server, through a proxy where a layout folds them, reads them back, and weighs it.
fn measure(binary: &Binary, layout: Option<&str>, records: &[Record]) -> anyhow::Result<Measured> {
    let settings = layout.map(needed_settings).transpose()?.unwrap_or_default();
    let server = binary.start(&settings.iter().map(String::as_str).collect::<Vec<_>>())?;
    let connect = |url: String| Server::connect(&url.parse::<ServerAddress>()?.into());
    let fill = |url: String, records: &[Record]| {
        let (mut client, written) = (connect(url)?, Instant::now());
        load::write(&mut client, &server.name(), records, "all")?;
        load::read_back(&mut client, &server.name(), records, written)
    };
    // The server keeps statistics of each command from its first call on.
    fill(server.url(), &records[..1])?;
    let mut gauge = connect(server.url())?;
    gauge.ask::<()>(&[b"FLUSHALL", b"SYNC"])?;
    let before = memory::settled(|| gauge.used_memory())?;
    let proxy = layout.map(|layout| Proxy::start(&server, layout)).transpose()?;
    fill(proxy.as_ref().map_or_else(|| server.url(), Proxy::url), records)?;
    drop(proxy);
    let grown = memory::settled(|| gauge.used_memory())?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "bytes of a test's data stay far below 2⁵³")]
    let bytes_per_record = grown as f64 / records.len() as f64;
    Ok(Measured { bytes_per_record, keys: gauge.ask(&[b"DBSIZE"])? })
}
