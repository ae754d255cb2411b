//! `int-buckets` (me-redis, 2018): counters in buckets, dense and with holes; and how fast they are.
//!
//! Beside buckets as an application makes them by hand, `id / size` in the hash's name and `id % size` in the field,
//! stand keyfold's two answers: a span for dense ids, and a count of buckets for ids with holes.

mod form;
mod show;
mod speed;

use std::collections::BTreeSet;

use keyfold_core::named;
use keyfold_report::number::count;

use crate::bench::Bench;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};
use form::{Form, SIZES};
use keyfold_survey::random::Random;

const ENTRIES: &str = "hash-max-listpack-entries";
/// The original's number of counters.
const COUNTERS: u64 = 10_000;
/// With holes one id of so many is in use. How many were in the original is not known here.
const HOLES: u64 = 100;
/// Counters are below this.
const COUNTED: u64 = 1000;

pub(crate) struct IntBuckets;

named! {
    /// Which ids there are.
    enum Ids {
        Dense = "dense",
        Holes = "with holes",
    }
}

/// All counters in one form.
struct Point {
    ids: Ids,
    form: Form,
    measured: u64,
    predicted: u64,
    /// Keys of the server that they take.
    keys: u64,
}

impl Study for IntBuckets {
    fn about(&self) -> About {
        About {
            name: "int-buckets",
            by: "me-redis",
            year: 2018,
            asks: "What do counters take in buckets by their ids, when ids are dense and when they have holes?",
            figure: "10,000 counters in 70 KB where ids are dense, in 685 KB where they have holes, and then in 260 KB \
                     with 512 to a bucket.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        // The same in a quick run: it is over in a moment, and what a bucket costs depends on how many there are.
        let counters = options.sized(COUNTERS, COUNTERS, COUNTERS).clamp(100, 10_000_000);
        let most = SIZES[SIZES.len() - 1];
        let mut outcome = Outcome::new(format!("{} counters, {ENTRIES} {most}", count(counters)));
        bench.can_have((ENTRIES, most), most, "", &mut outcome)?;
        let mut points = Vec::new();
        for ids in Ids::ALL {
            let records = ids.counters(counters, options.seed);
            for form in Form::all() {
                points.push(measure(bench, ids, form, &records)?);
            }
        }
        points.iter().for_each(|point| outcome.hold(point.measured, point.predicted));
        let speeds = speed::measure(bench, counters, options)?;
        show::conclude(&points, &speeds, counters, &mut outcome);
        Ok(outcome)
    }
}

impl Ids {
    /// Ids with what they count.
    fn counters(self, counters: u64, seed: u64) -> Vec<(u64, u64)> {
        let mut random = Random::new(seed);
        let ids: BTreeSet<u64> = match self {
            Self::Dense => (0..counters).collect(),
            Self::Holes => {
                let mut ids = BTreeSet::new();
                while (ids.len() as u64) < counters {
                    ids.insert(random.below(counters * HOLES));
                }
                ids
            }
        };
        ids.into_iter().map(|id| (id, random.below(COUNTED))).collect()
    }
}

fn measure(bench: &mut Bench<'_>, ids: Ids, form: Form, records: &[(u64, u64)]) -> anyhow::Result<Point> {
    let physical = form.physical(records)?;
    let model = bench.model()?;
    let keyspace = physical.predict(&model, bench.prefix_len());
    let what = format!("int-buckets: {}, {}", ids.name(), form.name());
    let weight = bench.measure(&what, physical.len(), |writer| physical.write(writer))?;
    Ok(Point { ids, form, measured: weight.bytes, predicted: weight.predicted(&keyspace), keys: keyspace.keys() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_counters_with_holes_as_without() {
        let (dense, holes) = (Ids::Dense.counters(1000, 1), Ids::Holes.counters(1000, 1));
        assert_eq!((dense.len(), holes.len()), (1000, 1000));
        assert_eq!(dense.last().unwrap().0, 999);
        assert!(holes.iter().any(|(id, _)| *id > 50_000) && holes.iter().all(|(id, _)| *id < 100_000));
        assert_ne!(holes, Ids::Holes.counters(1000, 2));
    }
}
