//! Why a placement doesn't fit its template.

use crate::template::Type;

/// Why a placement doesn't fit its template, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Less than 1, or more than 2³²; a span of less than 2.
    #[error("`{rule} = {given}` is out of range: 2 to 4294967296{}", if *given < 2 { "; to fold nothing, write `placement = \"plain\"`" } else { "" })]
    OutOfRange {
        /// `span` or `count`.
        rule: &'static str,
        /// The number given.
        given: i64,
    },
    /// `count = 1`, and not in each slot of a cluster.
    #[error(
        "`count = 1` would have all keys in one bucket, unless it is of each slot: write `cluster = true` beside it"
    )]
    OneBucket,
    /// `span` has nothing to divide.
    #[error("`span` needs a placeholder of type `int`, and the template has none; `count` spreads any type")]
    NoInt,
    /// `span` could divide several.
    #[error("the template has several ints; say which one the span divides, as in `{{ span = 128, of = {first:?} }}`")]
    SeveralInts {
        /// The first of them.
        first: String,
    },
    /// The part named isn't an int.
    #[error("`of = {name:?}`: that placeholder is {kind}, and a span divides an int")]
    NotInt {
        /// Its name.
        name: String,
        /// Its type.
        kind: Type,
    },
    /// No placeholder has that name.
    #[error("`{rule} = {name:?}`: the template has no such placeholder; it has {}", .have.join(", "))]
    UnknownPart {
        /// `of` or `by`.
        rule: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        have: Vec<String>,
    },
    /// Nothing would be left for the field.
    #[error("`by = {name:?}` leaves nothing for the field: each bucket would hold one key; use `span` or `count`")]
    ByAlone {
        /// The name given.
        name: String,
    },
    /// More templates than there are letters for fields.
    #[error(
        "{given} templates can't share buckets, {} at the most; make two namespaces of them",
        super::shared::MOST_TEMPLATES
    )]
    TooManyTemplates {
        /// How many there are.
        given: usize,
    },
}
