//! `key-length` (me-redis, 2018): what does a longer name of a key cost?
//!
//! As many keys with names of 3, 4 … 128 symbols, each length on the cleared server. Values are numbers that need no
//! bytes of their own, so that names are all that differs.

use keyfold_report::number::count;
use keyfold_report::plot::{Origin, Plot, Series};

use crate::bench::Bench;
use crate::options::Options;
use crate::outcome::{Outcome, Table};
use crate::physical::Physical;
use crate::study::{About, Study};
use keyfold_survey::random::Random;

/// The original's lengths.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=128;
/// What a quick run has of them: every tenth, and both sides of where allocators are known to round.
const QUICK_STEP: usize = 10;
const EDGES: [usize; 8] = [7, 8, 14, 15, 30, 31, 63, 64];
/// Lengths whose bytes are shown beside each other.
const SHOWN: [usize; 6] = [3, 8, 16, 32, 64, 128];
/// Symbols of a name that tell keys apart.
const TELLING: usize = 3;
const SYMBOLS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Any number that servers don't share between keys.
const VALUE: &[u8] = b"1000000";

pub(crate) struct KeyLength;

/// All keys with names of one length.
struct Point {
    len: usize,
    measured: u64,
    predicted: u64,
}

impl Study for KeyLength {
    fn about(&self) -> About {
        About {
            name: "key-length",
            by: "me-redis",
            year: 2018,
            asks: "What does each symbol more in the names of keys cost?",
            figure: "memory by the length of the keys, from 3 to 128 symbols: shorter names are the first of its three \
                     ways to save.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let most = SYMBOLS.len().pow(3) as u64;
        let keys = options.sized(2000, 10_000, 100_000).clamp(100, most);
        let mut outcome = Outcome::new(format!("{} keys of each length, integers as values", count(keys)));
        let lengths = lengths(options.is_quick());
        let mut progress = bench.progress("key-length", lengths.len() as u64);
        let mut points = Vec::new();
        for len in lengths {
            points.push(measure(bench, len, keys, options.seed)?);
            progress.advance(1);
        }
        drop(progress);
        points.iter().for_each(|point| outcome.hold(point.measured, point.predicted));
        conclude(&points, keys, &mut outcome);
        Ok(outcome)
    }
}

fn lengths(is_quick: bool) -> Vec<usize> {
    let is_taken =
        |len: &usize| !is_quick || len.is_multiple_of(QUICK_STEP) || EDGES.contains(len) || SHOWN.contains(len);
    LENGTHS.filter(is_taken).collect()
}

/// Names of one length: a text that all have, and three symbols that count.
fn name(stem: &[u8], mut number: u64) -> Vec<u8> {
    let mut name = stem.to_vec();
    for _ in 0..TELLING {
        let base = SYMBOLS.len() as u64;
        name.push(SYMBOLS[usize::try_from(number % base).unwrap_or(0)]);
        number /= base;
    }
    name
}

fn measure(bench: &mut Bench<'_>, len: usize, keys: u64, seed: u64) -> anyhow::Result<Point> {
    let stem = Random::new(seed).letters(len - TELLING);
    let mut physical = Physical::default();
    (0..keys).for_each(|number| physical.string(&name(&stem, number), VALUE));
    let model = bench.model()?;
    let keyspace = physical.predict(&model, bench.prefix_len());
    let weight = bench.measure("", keys, |writer| physical.write(writer))?;
    Ok(Point { len, measured: weight.bytes, predicted: weight.predicted(&keyspace) })
}

fn conclude(points: &[Point], keys: u64, outcome: &mut Outcome) {
    let each = |bytes: u64| bytes as f64 / keys as f64;
    for point in points.iter().filter(|point| SHOWN.contains(&point.len)) {
        let what = format!("a key with a name of {} symbols", point.len);
        outcome.compare(what, "bytes", [None, Some(each(point.measured)), Some(each(point.predicted))]);
    }
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let symbols = (last.len - first.len).max(1) as f64;
        let slope = |bytes: fn(&Point) -> u64| (each(bytes(last)) - each(bytes(first))) / symbols;
        let slopes = [None, Some(slope(|point| point.measured)), Some(slope(|point| point.predicted))];
        outcome.compare("one symbol more, on the mean", "bytes", slopes);
        let steps = points.windows(2).map(|pair| (&pair[0], &pair[1]));
        let rise = |(before, after): (&Point, &Point)| each(after.measured) - each(before.measured);
        let widest = steps.max_by(|one, other| rise(*one).total_cmp(&rise(*other))).unwrap_or((first, last));
        outcome.verdict = format!(
            "A name of {} symbols costs {:.0} bytes more than one of {}: {:.2} for each symbol on the mean, but in steps, \
             the widest of {:.0} bytes from {} to {} symbols. Between two steps a longer name costs nothing.",
            last.len,
            each(last.measured) - each(first.measured),
            first.len,
            slope(|point| point.measured),
            rise(widest),
            widest.0.len,
            widest.1.len,
        );
    }
    outcome.notes.push(
        "Of the original only the range of lengths is known here, so no bytes of its stand beside. What costs is the \
         allocator's next class: each is 8 bytes above the last at first, 16 from 16 on, and 32 from 128 on. On servers \
         that keep short names with a header of one byte, it is three from 32 symbols on."
            .to_owned(),
    );
    outcome.tables.push(table(points, keys));
    outcome.plots.push(plot(points, keys));
}

fn table(points: &[Point], keys: u64) -> Table {
    let title = format!("Memory of {} keys by the length of their names", count(keys));
    Table::of(
        "memory",
        title,
        points,
        &[
            ("symbols", &|point| (point.len as u64).into()),
            ("measured_bytes", &|point| point.measured.into()),
            ("predicted_bytes", &|point| point.predicted.into()),
            ("bytes_per_key", &|point| (point.measured as f64 / keys as f64, 2).into()),
        ],
    )
}

fn plot(points: &[Point], keys: u64) -> Plot {
    let series = |name: &str, origin, bytes: fn(&Point) -> u64| Series {
        name: name.to_owned(),
        origin,
        color: 0,
        points: points.iter().map(|point| (point.len as f64, bytes(point) as f64 / keys as f64)).collect(),
    };
    let series = vec![
        series("measured", Origin::Measured, |point| point.measured),
        series("model", Origin::Predicted, |point| point.predicted),
    ];
    Plot::lines("memory", "Memory of a key by the length of its name", "symbols of the name", "bytes a key", series)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_as_long_as_asked_for_and_all_different() {
        let names: BTreeSet<_> = (0..10_000).map(|number| name(b"stem", number)).collect();
        assert_eq!(names.len(), 10_000);
        assert!(names.iter().all(|name| name.len() == 7));
    }

    #[test]
    fn quick_runs_have_the_lengths_that_are_shown() {
        let quick = lengths(true);
        assert!(SHOWN.iter().all(|len| quick.contains(len)) && quick.len() < 40);
        assert_eq!(lengths(false).len(), 126);
    }
}
