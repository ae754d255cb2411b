//! The kinds of folding that are weighed, and the placements of each.

use keyfold_core::collection::CollectionKind;
use keyfold_core::placement::{By, Count, Placement, Span};
use keyfold_core::template::Template;

use crate::population::Population;

/// A size that every kind takes.
const ANY_SIZE: u64 = 128;

/// A kind of folding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Folding {
    /// Neighbours of the int at this position.
    Span(usize),
    Count,
    /// One bucket for each value of the part at this position.
    By(usize),
}

impl Folding {
    /// All kinds that a template allows; by slot those alone whose buckets' keys share a slot.
    pub(super) fn all(template: &Template, by_slot: bool) -> Vec<Self> {
        let parts = template.placeholders();
        let ints = parts.iter().enumerate().filter(|(_, part)| part.kind.is_int());
        let mut kinds: Vec<_> = ints.map(|(at, _)| Self::Span(at)).collect();
        kinds.push(Self::Count);
        if parts.len() > 1 {
            kinds.extend((0..parts.len()).map(Self::By));
        }
        let suits = |kind: &Self| {
            kind.placement(template, ANY_SIZE, true).is_some_and(|placement| placement.suits_slots(template))
        };
        kinds.retain(|kind| !by_slot || suits(kind));
        kinds
    }

    /// The kind of a placement that folds, with its size: 0 where it has none.
    pub(super) fn of(placement: &Placement) -> Option<(Self, u64)> {
        let span = placement.as_span().map(|span| (Self::Span(span.part()), span.span()));
        let count = || placement.as_count().map(|count| (Self::Count, count.count()));
        let by = || placement.as_by().map(|by| (Self::By(by.part()), 0));
        span.or_else(count).or_else(by)
    }

    /// [`Self::placement`] for what a family's keys are.
    pub(super) fn placement_of(&self, population: &Population<'_>, size: u64, by_slot: bool) -> Option<Placement> {
        holding(self.placement(population.template, size, by_slot)?, population.collection)
    }

    /// The placement of this kind with this size, in all or in each slot, of strings; none where the layout allows none.
    pub(super) fn placement(&self, template: &Template, size: u64, by_slot: bool) -> Option<Placement> {
        let name = |at: usize| template.placeholders().get(at).map(|part| part.name.as_str());
        let given = i64::try_from(size).ok()?;
        let placement = match self {
            Self::Span(at) => Span::new(template, given, name(*at)).ok().map(Placement::from),
            Self::Count => Count::new(template, given).ok().map(Placement::from),
            Self::By(at) => By::new(template, name(*at)?).ok().map(Placement::from),
        };
        placement.map(|placement: Placement| placement.by_slot(by_slot))
    }
}

/// The placement for such collections, or for strings as it is.
pub(super) fn holding(placement: Placement, collection: Option<CollectionKind>) -> Option<Placement> {
    match collection {
        Some(kind) => placement.of_collections(kind),
        None => Some(placement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_template() {
        let kinds = |keys: &str| Folding::all(&Template::parse(keys).unwrap(), false);
        assert_eq!(kinds("a:{id:int}"), [Folding::Span(0), Folding::Count]);
        assert_eq!(kinds("a:{id:uuid}"), [Folding::Count]);
        assert_eq!(kinds("a:{x}:{id:int}"), [Folding::Span(1), Folding::Count, Folding::By(0), Folding::By(1)]);
    }

    #[test]
    fn by_slot_buckets_hold_what_shares_a_slot() {
        let kinds = |keys: &str| Folding::all(&Template::parse(keys).unwrap(), true);
        assert_eq!(kinds("a:{id:int}"), [Folding::Count]);
        assert_eq!(kinds("a:{x}:{id:int}"), [Folding::Count]);
        assert_eq!(kinds("a:{{{x}}}:{id:int}"), [Folding::Span(1), Folding::Count, Folding::By(0)]);
    }
}
