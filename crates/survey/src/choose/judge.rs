//! Which of several ways is the best, and which can't be taken at all.

use keyfold_core::placement::Placement;

use super::fill::{Fill, LEAST_ENTRIES};
use super::folding::Folding;
use super::weigh::{Rule, Weighed};

/// Up to so many entries a bucket stays small by the servers' default (`hash-max-listpack-entries`). A server that
/// has a larger limit may lose it; this one is always there to have.
pub(super) const MOST_ENTRIES: u64 = 512;
/// The share of buckets that may have fewer than [`LEAST_ENTRIES`].
const SCANT_SHARE: f64 = 0.01;
/// The same where the share is estimated from a part of the buckets.
const SCANT_SHARE_ESTIMATED: f64 = 0.005;
/// Growth beyond this would leave buckets of fewer than [`LEAST_ENTRIES`] today.
pub(super) const MOST_GROWTH: f64 = 8.0;
/// What a command costs a server besides its own time, in microseconds: a GET of 0.63 took 1.55 of the server's
/// time, 16 in a pipeline (`docs/benchmarks.md`, Redis 7.0.15).
const COMMAND_US: f64 = 1.0;
/// By chance the fullest of some thousand buckets is so many standard deviations over the mean, and hardly more.
const CHANCE_DEVIATIONS: f64 = 3.5;
/// How much of the memory a doubling of the server's time is worth: one percent of memory against two of time.
const TIME_EXPONENT: f64 = 0.5;

/// What a way costs in memory and time together; the lowest is the knee of the two.
pub(super) fn score(bytes: f64, read_us: f64) -> f64 {
    bytes.max(1.0).ln() + TIME_EXPONENT * (read_us + COMMAND_US).ln()
}

/// Why a way can't be taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unfit {
    /// No key has a place in a bucket.
    NoBuckets,
    /// This share of the buckets has too few entries.
    Scant(f64),
    /// A bucket has so many entries, or will have, once the keys have grown.
    Overfull { entries: u64, grown: bool },
}

/// Whether the fill allows a way, now and after growth. `estimated` where not all buckets were seen.
pub(super) fn check(rule: &Rule, fill: &Fill, growth: f64, one_part: bool, estimated: bool) -> Result<(), Unfit> {
    if fill.buckets() == 0 {
        return Err(Unfit::NoBuckets);
    }
    let is_span = rule.placement.span().is_some();
    let share = if estimated { SCANT_SHARE_ESTIMATED } else { SCANT_SHARE };
    // Where each slot has one bucket there can't be fewer: bytes alone decide, also on what would be instead of it.
    let is_several = matches!(Folding::of(&rule.placement), Some((Folding::Count, 2..)));
    let scant = if rule.placement.is_by_slot() && !is_several { 0.0 } else { fill.below(LEAST_ENTRIES) as f64 };
    // The bucket of the highest ids is still being filled.
    let filling = if is_span { 1.0 } else { 0.0 };
    if scant > (share * fill.buckets() as f64).max(filling) {
        return Err(Unfit::Scant(scant / fill.buckets() as f64));
    }
    let fullest = fill.quantile(0.999);
    let now = if estimated { fullest } else { fill.quantile(1.0) };
    if now > MOST_ENTRIES {
        return Err(Unfit::Overfull { entries: now, grown: false });
    }
    // A span takes new ids into new buckets.
    let entries = if is_span && one_part { fullest } else { grown(rule, fill, growth) };
    if entries > MOST_ENTRIES { Err(Unfit::Overfull { entries, grown: true }) } else { Ok(()) }
}

/// Whether keys have one bucket in each slot of a cluster.
pub(super) fn has_fewest_buckets(rule: &Rule) -> bool {
    rule.placement.is_by_slot() && matches!(Folding::of(&rule.placement), Some((Folding::Count, 1)))
}

/// The entries of the fullest buckets once there are `growth` times as many keys.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of entries")]
fn grown(rule: &Rule, fill: &Fill, growth: f64) -> u64 {
    let (mean, fullest) = (fill.mean(), fill.quantile(0.999) as f64);
    let entries = match Folding::of(&rule.placement) {
        // Chance grows with the root of what it is chance of, and all that is uneven besides with the whole.
        Some((Folding::Count, _)) => {
            let is_even = fullest - mean < mean.sqrt();
            let chance = if is_even { fullest - mean } else { CHANCE_DEVIATIONS * mean.sqrt() };
            (fullest - chance).max(mean) * growth + chance * growth.sqrt()
        }
        _ => fullest * growth,
    };
    entries.round() as u64
}

/// For how many times as many keys the buckets have room, to a tenth.
pub(super) fn room(rule: &Rule, fill: &Fill) -> f64 {
    let tenths = (10..=160_u32).take_while(|tenths| grown(rule, fill, f64::from(*tenths) / 10.0) <= MOST_ENTRIES);
    f64::from(tenths.last().unwrap_or(10)) / 10.0
}

/// What a placement is worth beyond bytes and time, on the scale of [`score`]: *by* reads what belongs together in
/// one round trip, and *span* takes any growth of ids.
fn merit(placement: &Placement) -> f64 {
    match Folding::of(placement) {
        Some((Folding::By(_), _)) => 0.03,
        Some((Folding::Span(_), _)) => 0.02,
        Some((Folding::Count, _)) | None => 0.0,
    }
}

/// The score of a way of folding, what else it is worth included.
pub(super) fn rank(rule: &Rule, weighed: &Weighed) -> f64 {
    score(weighed.footprint.smooth_bytes(), weighed.read_us) - merit(&rule.placement)
}

#[cfg(test)]
mod tests {
    use keyfold_core::placement::{Count, Span};
    use keyfold_core::template::Template;

    use super::*;

    fn rule(bucket: &str) -> Rule {
        let template = Template::parse("a:{id:int}").unwrap();
        let placement = match bucket {
            "span" => Placement::from(Span::new(&template, 126, None).unwrap()),
            _ => Placement::from(Count::new(&template, 100).unwrap()),
        };
        Rule { placement, value_limit: 64, field_limit: 64 }
    }

    #[test]
    fn holes_and_growth_are_refused() {
        let even = Fill::new(vec![100; 100]);
        assert_eq!(check(&rule("count"), &even, 4.0, true, false), Ok(()));
        let overfull = Err(Unfit::Overfull { entries: 600, grown: true });
        assert_eq!(check(&rule("count"), &even, 6.0, true, false), overfull);
        assert_eq!(check(&rule("span"), &even, 6.0, true, false), Ok(()));
        assert_eq!(check(&rule("span"), &even, 6.0, false, false), overfull);
        let holes = Fill::new([vec![100; 90], vec![5; 10]].concat());
        assert_eq!(check(&rule("span"), &holes, 1.0, true, false), Err(Unfit::Scant(0.1)));
        assert_eq!(check(&rule("span"), &Fill::default(), 1.0, true, false), Err(Unfit::NoBuckets));
        let one_overfull = Fill::new(vec![100, 100, 700]);
        let now = Err(Unfit::Overfull { entries: 700, grown: false });
        assert_eq!(check(&rule("count"), &one_overfull, 1.0, true, false), now);
    }

    #[test]
    fn one_bucket_in_each_slot_may_have_few_entries() {
        let template = Template::parse("a:{id:int}").unwrap();
        let rule = |count| Rule {
            placement: Placement::from(Count::new(&template, count).unwrap()).by_slot(true),
            value_limit: 64,
            field_limit: 64,
        };
        let few = Fill::new(vec![6; 100]);
        assert_eq!(check(&rule(1), &few, 4.0, true, false), Ok(()));
        assert_eq!(check(&rule(2), &few, 4.0, true, false), Err(Unfit::Scant(1.0)));
    }

    #[test]
    fn what_is_uneven_grows_with_the_keys_and_chance_with_their_root() {
        let even = Fill::new(vec![100; 100]);
        assert_eq!(room(&rule("count"), &even), 5.1);
        let by_chance = Fill::new([vec![100; 998], vec![130; 2]].concat());
        assert!((4.0..4.4).contains(&room(&rule("count"), &by_chance)));
        let two_kinds = Fill::new([vec![50; 100], vec![150; 100]].concat());
        assert!((3.4..4.0).contains(&room(&rule("count"), &two_kinds)));
    }

    #[test]
    fn only_the_bucket_of_the_highest_ids_may_be_scant() {
        assert_eq!(check(&rule("span"), &Fill::new(vec![100, 100, 3]), 1.0, true, false), Ok(()));
        assert!(check(&rule("span"), &Fill::new(vec![100, 3, 3]), 1.0, true, false).is_err());
        assert!(check(&rule("count"), &Fill::new(vec![100, 100, 3]), 1.0, true, false).is_err());
    }

    #[test]
    fn a_tenth_of_the_memory_is_worth_a_fifth_of_the_time() {
        assert!(score(90.0, 1.0) < score(100.0, 1.0));
        assert!(score(90.0, 1.2 * 2.0 - 1.0) < score(100.0, 1.0));
        assert!(score(90.0, 1.3 * 2.0 - 1.0) > score(100.0, 1.0));
    }
}
