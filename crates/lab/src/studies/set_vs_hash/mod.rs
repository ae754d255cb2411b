//! `set-vs-hash` (Salesforce, 2021): a set, or a hash with 1 as every value? And a set that keyfold keeps?
//!
//! Members of 24 random letters are added one by one, to a set, to a hash under each of several limits, and through keyfold to a
//! folded set. Where a table has grown, members are looked for until its old half is gone: what is measured is what stays.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `form.rs` | the forms, and what the model says of each |
//! | `curve.rs` | one form's memory by the number of members |
//! | `folded.rs` | the same of the folded set |
//! | `speed.rs` | how long look-ups take |
//! | `others.rs` | whether a hash over its limit affects others |
//! | `show.rs` | what came of it |

mod curve;
mod folded;
mod form;
mod others;
mod show;
mod speed;

use keyfold_core::memory::Limits;
use keyfold_survey::random::Random;

use crate::bench::Bench;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};
use form::{Collection, ENTRIES, LIMITS, VALUE};

const MEMBER_LETTERS: usize = 24;

pub(crate) struct SetVsHash;

impl Study for SetVsHash {
    fn about(&self) -> About {
        About {
            name: "set-vs-hash",
            by: "Salesforce",
            year: 2021,
            asks: "Does a hash with 1 as every value take less than a set, and what does each new member cost?",
            figure: "14,403 bytes as a hash against 32,920 as a set at 1k entries under limit 512; the cost of a new \
                     entry has spikes at powers of two.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let most = options.sized(10_000, 50_000, 50_000).clamp(1000, 200_000);
        let members = members(most, options.seed);
        let mut outcome = Outcome::new("members of 24 letters");
        let mut curves = vec![curve::measure(bench, Collection::Set, &members, options)?];
        let mut speeds = speed::measure(bench, Collection::Set, &members, options)?;
        for limit in LIMITS {
            let setting = (ENTRIES, Limits::default().hash_entries);
            if bench.can_have(setting, limit, &format!("hashes under limit {limit}"), &mut outcome)? {
                curves.push(curve::measure(bench, Collection::Hash(limit), &members, options)?);
                speeds.extend(speed::measure(bench, Collection::Hash(limit), &members, options)?);
            }
        }
        if can_fold(bench, &mut outcome)? {
            curves.push(folded::measure(bench, &members, options)?);
            speeds.extend(speed::measure(bench, Collection::Folded, &members, options)?);
        }
        others::stay(bench, &members, &mut outcome)?;
        for (kind, point) in curves.iter().flat_map(|curve| curve.points.iter().map(|point| (curve.kind, point))) {
            outcome.hold_within(point.measured, point.predicted, form::chance_bytes(kind, point.members));
        }
        show::conclude(&curves, &speeds, options, &mut outcome);
        Ok(outcome)
    }
}

fn members(count: u64, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.letters(MEMBER_LETTERS)).collect()
}

/// Whether keyfold may be measured here, and its whole small sets fit a bucket's value.
fn can_fold(bench: &mut Bench<'_>, outcome: &mut Outcome) -> anyhow::Result<bool> {
    let (what, limits) = (Collection::Folded.name(), Limits::default());
    bench.set(ENTRIES, limits.hash_entries)?;
    Ok(bench.can_fold(&what, outcome)
        && bench.can_have((VALUE, limits.hash_value_bytes), folded::VALUE_LIMIT, &what, outcome)?)
}
