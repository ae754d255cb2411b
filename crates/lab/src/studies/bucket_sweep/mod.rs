//! `bucket-sweep` (Lancers, 2016): how many characters of a uuid should name its hash?
//!
//! Records are a uuid and an integer: as strings, in hashes named by the first characters of the uuid with the others as
//! the field, and as keyfold places them. Sizes that fit are measured; the others are the model's, and marked so.

mod form;
mod show;

use anyhow::Context;
use keyfold_core::memory::{Keyspace, Limits};
use keyfold_report::number::count;

use crate::bench::Bench;
use crate::kept::Kept;
use crate::options::{Options, Scale};
use crate::outcome::Outcome;
use crate::study::{About, Study};
use crate::writer::Writer;
use form::Form;
use keyfold_survey::random::Random;

const ENTRIES: &str = "hash-max-listpack-entries";
/// The original's sizes.
const RECORDS: [u64; 7] = [1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 40_000_000, 80_000_000];
/// What is measured where it fits, at the original's scale.
const FULL: [u64; 4] = [1_000_000, 10_000_000, 20_000_000, 80_000_000];
/// From this mean on, some hashes are over the limit of 512 by chance, and are tables.
const MAY_BE_TABLES: u64 = 350;

pub(crate) struct BucketSweep;

/// One size in one form.
#[derive(Clone, Copy, Debug)]
struct Point {
    form: Form,
    records: u64,
    /// None where only the model tells.
    measured: Option<u64>,
    predicted: u64,
}

impl Point {
    /// GB to a million records: what was measured, or else what the model says.
    fn gb_per_million(&self) -> f64 {
        self.measured.unwrap_or(self.predicted) as f64 / self.records as f64 / 1000.0
    }
}

impl Study for BucketSweep {
    fn about(&self) -> About {
        About {
            name: "bucket-sweep",
            by: "Lancers",
            year: 2016,
            asks: "How many characters of a uuid should name its hash, by the number of records?",
            figure: "0.108 GB a million records as strings, 0.038 in hashes named by 5 characters: 65 % less. 80 million \
                     did not fit its author's machine.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::new(format!("uuid to integer, {ENTRIES} {}", Limits::default().hash_entries));
        let entries = Limits::default().hash_entries;
        bench.can_have((ENTRIES, entries), entries, "", &mut outcome)?;
        let measured_sizes = match options.scale {
            Scale::Quick => vec![100_000, 200_000],
            Scale::Times(_) => [500_000, 2_000_000].map(|size| options.sized(0, size, size)).to_vec(),
            Scale::Full => FULL.to_vec(),
        };
        let mut sizes: Vec<u64> = RECORDS.into_iter().chain(measured_sizes.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut kept = bench.kept("bucket-sweep", options.seed, &outcome.settings)?;
        let mut points = Vec::new();
        let mut forms = Form::all();
        // What the study compares comes first: a run of the original's size takes hours, and keeps what it has.
        forms.sort_by_key(|form| matches!(form, Form::Hashes(_)));
        for form in forms {
            for records in &sizes {
                let measures = measured_sizes.contains(records).then_some(&mut kept);
                points.push(point(bench, form, *records, measures, options.seed, &mut outcome)?);
            }
        }
        kept.done();
        points.sort_by_key(|point| Form::all().iter().position(|form| *form == point.form));
        for point in &points {
            if let Some(measured) = point.measured {
                outcome.hold(measured, point.predicted);
            }
        }
        show::conclude(&points, &sizes, &mut outcome);
        Ok(outcome)
    }
}

fn point(
    bench: &mut Bench<'_>,
    form: Form,
    records: u64,
    kept: Option<&mut Kept>,
    seed: u64,
    outcome: &mut Outcome,
) -> anyhow::Result<Point> {
    let model = bench.model()?;
    let expected = form.expect(&model, records, bench.prefix_len(), seed)?;
    let mut keyspace = Keyspace::new(&model);
    keyspace.add_all(expected.keys, 0, expected.content_bytes);
    let alone = Point { form, records, measured: None, predicted: keyspace.total_bytes() };
    let Some(kept) = kept else { return Ok(alone) };
    if !bench.fits(keyspace.total_bytes())? {
        outcome.notes.push(format!(
            "{} as {} do not fit this server; their bytes are the model's.",
            count(records),
            form.name()
        ));
        return Ok(alone);
    }
    let what = format!("bucket-sweep: {} as {}", count(records), form.name());
    let layout = form.layout(records)?;
    let placed = form.placed(&layout)?;
    let weight = bench.measure_once(kept, &what, records, |writer| {
        each(records, seed, |uuid, value| placed.write(writer, uuid, value))?;
        writer.flush()?;
        if form.mean_fields(records) >= MAY_BE_TABLES {
            settle(writer, records, seed, &placed)?;
        }
        Ok(())
    })?;
    Ok(Point { measured: Some(weight.bytes), predicted: weight.predicted(&keyspace), ..alone })
}

/// Calls `with` with each record.
fn each(records: u64, seed: u64, mut with: impl FnMut(&str, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut random = Random::new(seed);
    let mut digits = itoa::Buffer::new();
    for _ in 0..records {
        let uuid = random.uuid();
        let value = form::value(&mut random);
        with(&uuid, digits.format(value).as_bytes()).context("can't write a record")?;
    }
    Ok(())
}

/// Looks for every record, so that no hash that became a table holds its old half.
fn settle(writer: &mut Writer<'_>, records: u64, seed: u64, placed: &form::Placed<'_>) -> anyhow::Result<()> {
    each(records, seed, |uuid, _| placed.look(writer, uuid))
}
