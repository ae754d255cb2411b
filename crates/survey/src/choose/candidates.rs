//! The ways of folding a family that are worth weighing, and the best of each kind.
//!
//! Sizes are searched, not computed: bytes as a function of entries have steps where a bucket passes one of the
//! allocator's size classes, so that 126 to a bucket can take a sixth less than 128 do.

use keyfold_core::memory::Model;
use keyfold_core::placement::{By, Count, Placement, Span};
use keyfold_core::template::Template;

use super::judge::{self, MOST_ENTRIES, Unfit};
use super::limits::LengthLimits;
use super::weigh::{Rule, Scales, Weighed};

/// Entries to a bucket that a *count* is tried with: under the first, chance leaves some buckets too few; over the
/// last, growth or time forbid it.
const COUNT_MEANS: [u64; 14] = [50, 54, 60, 66, 72, 80, 88, 96, 104, 112, 128, 160, 192, 256];
/// Spans are tried at these distances first, and then one by one beside the best.
const SPAN_STEP: u64 = 8;
/// Shorter spans would be too empty as soon as some keys are deleted.
const LEAST_SPAN: u64 = 48;
/// Spans are tried one by one beside so many of the best.
const PEAKS: usize = 2;
/// So many of the best are weighed again, with all keys of the sample.
const CLOSE_LOOKS: usize = 6;

/// A kind of folding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Neighbours of the int at this position.
    Span(usize),
    Count,
    /// One bucket for each value of the part at this position.
    By(usize),
}

impl Kind {
    /// All kinds that a template allows.
    pub(super) fn all(template: &Template) -> Vec<Self> {
        let parts = template.placeholders();
        let ints = parts.iter().enumerate().filter(|(_, part)| part.kind.is_int());
        let mut kinds: Vec<_> = ints.map(|(at, _)| Self::Span(at)).collect();
        kinds.push(Self::Count);
        if parts.len() > 1 {
            kinds.extend((0..parts.len()).map(Self::By));
        }
        kinds
    }

    /// The placement of this kind with this size; none where the layout allows none.
    pub(super) fn placement(&self, template: &Template, size: u64) -> Option<Placement> {
        let name = |at: usize| template.placeholders().get(at).map(|part| part.name.as_str());
        let given = i64::try_from(size).ok()?;
        match self {
            Self::Span(at) => Span::new(template, given, name(*at)).ok().map(Placement::Span),
            Self::Count => Count::new(template, given).ok().map(Placement::Count),
            Self::By(at) => By::new(template, name(*at)?).ok().map(Placement::By),
        }
    }
}

/// A way of folding with what came of it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) rule: Rule,
    pub(super) weighed: Weighed,
    /// Whether it can be taken.
    pub(super) fit: Result<(), Unfit>,
}

impl Way {
    /// The lower the better.
    pub(super) fn rank(&self) -> f64 {
        judge::rank(&self.rule, &self.weighed)
    }
}

/// Weighs ways of one family on one server.
pub(super) struct Search<'a, 'p> {
    /// With all keys of the sample.
    pub(super) scales: &'a Scales<'a, 'p>,
    /// With fewer of them, to look around with.
    pub(super) quick: &'a Scales<'a, 'p>,
    pub(super) model: &'a Model,
    pub(super) limits: LengthLimits,
    pub(super) growth: f64,
}

impl Search<'_, '_> {
    fn template(&self) -> &Template {
        self.scales.population.template
    }

    /// One way; none where the layout has no such placement or the sample can't show it.
    pub(super) fn way(&self, kind: &Kind, size: u64) -> Option<Way> {
        self.way_on(self.scales, kind, size)
    }

    /// The same from fewer keys, where these can show it.
    fn quick_way(&self, kind: &Kind, size: u64) -> Option<Way> {
        self.way_on(self.quick, kind, size).or_else(|| self.way(kind, size))
    }

    fn way_on(&self, scales: &Scales<'_, '_>, kind: &Kind, size: u64) -> Option<Way> {
        let rule = self.limits.rule(kind.placement(self.template(), size)?);
        if !scales.shows(&rule.placement) {
            return None;
        }
        let weighed = scales.weigh(self.model, &rule);
        let one_part = self.template().placeholders().len() == 1;
        let estimated = (scales.members.len() as u64) < scales.population.keys;
        let fit = judge::check(&rule, &weighed.fill, self.growth, one_part, estimated);
        Some(Way { rule, weighed, fit })
    }

    /// The best way of a kind that can be taken; or else the one that comes closest.
    pub(super) fn best(&self, kind: &Kind) -> Option<Way> {
        let mut ways = match kind {
            Kind::Span(_) => self.spans(kind),
            Kind::Count => self.counts(),
            Kind::By(_) => self.quick_way(kind, 0).into_iter().collect(),
        };
        // What can be taken first, the best of it first; then by how near it comes.
        ways.sort_by(|one, other| {
            let scant = |way: &Way| 1.0 - way.weighed.fill.share_within(MOST_ENTRIES);
            let key = |way: &Way| if way.fit.is_ok() { (0.0, way.rank()) } else { (1.0, scant(way)) };
            key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut sure = ways.iter().take(CLOSE_LOOKS).filter_map(|way| self.way(kind, size(way)));
        let first = sure.next()?;
        if first.fit.is_ok() { Some(first) } else { Some(sure.find(|way| way.fit.is_ok()).unwrap_or(first)) }
    }

    fn spans(&self, kind: &Kind) -> Vec<Way> {
        let coarse = (LEAST_SPAN..=MOST_ENTRIES).step_by(8).filter(|span| *span <= 256 || span.is_multiple_of(32));
        let mut ways: Vec<_> = coarse.filter_map(|span| self.quick_way(kind, span)).collect();
        let mut fitting: Vec<_> =
            ways.iter().filter(|way| way.fit.is_ok()).map(|way| (way.rank(), size(way))).collect();
        fitting.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (_, span) in fitting.into_iter().take(PEAKS) {
            let beside = (span.saturating_sub(SPAN_STEP) + 1..span).chain(span + 1..span + SPAN_STEP);
            ways.extend(
                beside
                    .filter(|span| (LEAST_SPAN..=MOST_ENTRIES).contains(span))
                    .filter_map(|span| self.quick_way(kind, span)),
            );
        }
        ways
    }

    fn counts(&self) -> Vec<Way> {
        let keys = self.scales.population.keys;
        let mut counts: Vec<_> = COUNT_MEANS.iter().map(|mean| round(keys / mean)).filter(|count| *count > 1).collect();
        counts.dedup();
        counts.into_iter().filter_map(|count| self.quick_way(&Kind::Count, count)).collect()
    }

    /// The way of a kind whose buckets hold about so many entries, on the mean.
    pub(super) fn at_mean(&self, kind: &Kind, entries: u64, density: f64) -> Option<Way> {
        match kind {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a span, checked by its rule")]
            Kind::Span(_) => self.way(kind, (entries as f64 / density).round() as u64),
            Kind::Count => self.way(kind, round(self.scales.population.keys / entries)),
            Kind::By(_) => None,
        }
    }
}

/// The number that a placement is made with; 0 where it has none.
pub(super) fn size(way: &Way) -> u64 {
    match &way.rule.placement {
        Placement::Span(span) => span.span(),
        Placement::Count(count) => count.count(),
        _ => 0,
    }
}

/// To two digits, as people write numbers of buckets; exact where there are few.
fn round(count: u64) -> u64 {
    let unit = 10_u64.pow(count.max(1).ilog10().saturating_sub(1));
    (count + unit / 2) / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_two_digits() {
        assert_eq!([0, 7, 99, 101, 5783, 123_456].map(round), [0, 7, 99, 100, 5800, 120_000]);
    }

    #[test]
    fn kinds_follow_the_template() {
        let kinds = |keys: &str| Kind::all(&Template::parse(keys).unwrap());
        assert_eq!(kinds("a:{id:int}"), [Kind::Span(0), Kind::Count]);
        assert_eq!(kinds("a:{id:uuid}"), [Kind::Count]);
        assert_eq!(kinds("a:{x}:{id:int}"), [Kind::Span(1), Kind::Count, Kind::By(0), Kind::By(1)]);
    }
}
