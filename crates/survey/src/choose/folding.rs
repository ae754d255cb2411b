//! The kinds of folding that are weighed, and the placements of each.

use keyfold_core::placement::{By, Count, Placement, Span};
use keyfold_core::template::Template;

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

    /// The kind of a placement that folds, with its size: 0 where it has none.
    pub(super) fn of(placement: &Placement) -> Option<(Self, u64)> {
        let span = placement.as_span().map(|span| (Self::Span(span.part()), span.span()));
        let count = || placement.as_count().map(|count| (Self::Count, count.count()));
        let by = || placement.as_by().map(|by| (Self::By(by.part()), 0));
        span.or_else(count).or_else(by)
    }

    /// The placement of this kind with this size; none where the layout allows none.
    pub(super) fn placement(&self, template: &Template, size: u64) -> Option<Placement> {
        let name = |at: usize| template.placeholders().get(at).map(|part| part.name.as_str());
        let given = i64::try_from(size).ok()?;
        match self {
            Self::Span(at) => Span::new(template, given, name(*at)).ok().map(Placement::from),
            Self::Count => Count::new(template, given).ok().map(Placement::from),
            Self::By(at) => By::new(template, name(*at)?).ok().map(Placement::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_template() {
        let kinds = |keys: &str| Folding::all(&Template::parse(keys).unwrap());
        assert_eq!(kinds("a:{id:int}"), [Folding::Span(0), Folding::Count]);
        assert_eq!(kinds("a:{id:uuid}"), [Folding::Count]);
        assert_eq!(kinds("a:{x}:{id:int}"), [Folding::Span(1), Folding::Count, Folding::By(0), Folding::By(1)]);
    }
}
