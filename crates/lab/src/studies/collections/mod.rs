//! `collections`: what sets and hashes take plain, by what can be done without keyfold, and folded.
//!
//! Large ones lie in parts when they are folded, small ones as one value each in buckets. All are written as an application writes
//! them, folded ones through a keyfold in the lab's own process.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `family.rs` | the sets and hashes |
//! | `way.rs` | the ways in which they are kept |
//! | `show.rs` | what came of it |

mod family;
mod show;
mod way;

use keyfold_core::collection::CollectionKind;
use keyfold_report::number::count;

use crate::bench::Bench;
use crate::folding::{Folding, INTERPRETER_BYTES, Words};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};
use crate::timing::{self, Took};
use crate::writer::Writer;
use family::{Family, Made};
use way::Way;

/// Members or fields of a family.
const MEMBERS: u64 = 200_000;
const QUICK_MEMBERS: u64 = 5000;
/// Commands that are written and removed before: enough that the server has run every script that keyfold sends.
const FIRST: usize = 1000;
/// Look-ups behind the last member, which finish what a table's growth began.
const LOOKS_MORE: usize = 8;

pub(crate) struct Collections;

/// A family in one way.
struct Point {
    family: Family,
    way: Way,
    members: u64,
    measured: u64,
    predicted: u64,
    /// Of one look-up, one at a time.
    took: Took,
}

impl Point {
    fn each(&self) -> f64 {
        self.measured as f64 / self.members as f64
    }

    fn predicted_each(&self) -> f64 {
        self.predicted as f64 / self.members as f64
    }
}

impl Study for Collections {
    fn about(&self) -> About {
        About {
            name: "collections",
            by: "keyfold",
            year: 2026,
            asks: "What do large and small sets and hashes take, plain, by the server's own limits, and folded?",
            figure: "none for folded ones. Salesforce (2021) kept sets as hashes under a raised limit, which is among the \
                     ways here.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let members = options.sized(QUICK_MEMBERS, MEMBERS, MEMBERS).clamp(1000, 2_000_000);
        let mut outcome = Outcome::new(format!("{} members of each family", count(members)));
        let mut points = Vec::new();
        let sets = bench.model()?.sets_as();
        for family in Family::ALL {
            for way in Way::of(family, sets) {
                let what = format!("{family}, {}", way.name(family));
                let members = way.members(family, members);
                if can_have(bench, family, way, members, &what, &mut outcome)? {
                    points.push(measure(bench, family, way, members, options)?);
                    if let Some((name, default, _)) = way.limit(family, members) {
                        bench.set(name, default)?;
                    }
                }
            }
        }
        points.iter().for_each(|point| outcome.hold_within(point.measured, point.predicted, chance_bytes(point)));
        show::conclude(&points, &mut outcome);
        Ok(outcome)
    }
}

/// Sets the limit that it needs, and sees that a layout may be in force where it needs one.
fn can_have(
    bench: &mut Bench<'_>,
    family: Family,
    way: Way,
    members: u64,
    what: &str,
    outcome: &mut Outcome,
) -> anyhow::Result<bool> {
    if way.is_folded() && !bench.can_fold(what, outcome) {
        return Ok(false);
    }
    match way.limit(family, members) {
        Some((name, default, wanted)) => bench.can_have((name, default), wanted, what, outcome),
        None => Ok(true),
    }
}

fn measure(bench: &mut Bench<'_>, family: Family, way: Way, members: u64, options: &Options) -> anyhow::Result<Point> {
    let made = family.make(members, options.seed);
    let commands: Vec<Words> = made.iter().flat_map(|one| way.write(family, one)).collect();
    let count = options.sized(200, 5000, 5000);
    let look_ups = |prefix: &[u8]| way.look_ups(family, &made, count, options.seed, prefix);
    let model = bench.model()?;
    let (weight, predicted, took) = if way.is_folded() {
        let layout = match way {
            Way::FoldedByFields => family.layout_by_fields(members, options.seed)?,
            _ => family.layout()?,
        };
        let folding = Folding::begin(bench, &layout, &commands[..commands.len().min(FIRST)])?;
        folding.write(bench, &commands)?;
        let collections: Vec<_> = made.iter().map(|one| (&*one.key, one.collection(family.kind()))).collect();
        let each = collections.iter().map(|(key, collection)| (*key, collection));
        let (weight, predicted) = folding.weigh(bench, &model, each)?;
        let took = folding.serve(bench, |bench, client| timing::time(bench, client, &look_ups(b""), 1))?;
        folding.end(bench)?;
        (weight, predicted, took)
    } else {
        let what = format!("collections: {family}, {}", way.name(family));
        let weight =
            bench.measure(&what, commands.len() as u64, |writer| write(writer, family, way, &made, &commands))?;
        let keyspace = way.expect(family, &made, &model, bench.prefix_len());
        let took = timing::time(bench, &mut bench.connect()?, &look_ups(&bench.key(b"")), 1)?;
        (weight, weight.predicted(&keyspace), took)
    };
    Ok(Point { family, way, members, measured: weight.bytes, predicted, took })
}

fn write(writer: &mut Writer<'_>, family: Family, way: Way, made: &[Made], commands: &[Words]) -> anyhow::Result<()> {
    for words in commands {
        let [command, key, rest @ ..] = &words[..] else { continue };
        writer.on_key(command, key, &rest.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    // What is packed has no table that grows, and would be searched from end to end.
    for one in made.iter().filter(|_| way == Way::Plain) {
        let command: &[u8] = if family.kind() == CollectionKind::Set { b"SISMEMBER" } else { b"HEXISTS" };
        for _ in 0..one.texts.len() + LOOKS_MORE {
            writer.read(command, &one.key, &[b"nobody"])?;
        }
    }
    Ok(())
}

/// What it may differ by: a large table from the mean of all hash seeds, which newer servers draw at each start, by three standard
/// deviations of how many of its places overflow into another 64 bytes, which is one for twenty entries or fewer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand bytes")]
fn chance_bytes(point: &Point) -> u64 {
    match point.way {
        Way::Plain if point.family.is_large() => (3.0 * 64.0 * (point.members as f64 / 20.0).sqrt()) as u64,
        Way::Folded | Way::FoldedByFields => INTERPRETER_BYTES,
        Way::Plain | Way::Packed | Way::AsHash => 0,
    }
}
