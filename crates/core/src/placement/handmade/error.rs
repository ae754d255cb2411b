//! Why a rule for handmade hashes is refused.

use crate::template::{TemplateError, Type};

/// Why a rule for handmade hashes is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandmadeError {
    /// A part that is no number.
    #[error(
        "the placeholder {name:?} is {kind}; only keys whose placeholders are all ints can come from handmade hashes"
    )]
    NotInts {
        /// Its name.
        name: String,
        /// Its type.
        kind: Type,
    },
    /// Something in braces that can't be read.
    #[error(
        "`{{{given}}}` in `{pattern}`: there are {{id}}, {{id/1000}} and {{id%1000}}, each also as {{id/1000:base62}}"
    )]
    BadPiece {
        /// The pattern.
        pattern: String,
        /// What stands in the braces.
        given: String,
    },
    /// A brace without its partner.
    #[error("`{pattern}` has a brace without its partner; {{{{ and }}}} stand for single braces")]
    Brace {
        /// The pattern.
        pattern: String,
    },
    /// No such part.
    #[error("`{{{name}}}` in `{pattern}`: the keys have no such placeholder; they have {}", .have.join(", "))]
    UnknownPart {
        /// The pattern.
        pattern: String,
        /// The name given.
        name: String,
        /// The names there are.
        have: Vec<String>,
    },
    /// A divisor that divides nothing.
    #[error("`{{{given}}}` in `{pattern}`: a number is divided by 2 to 4294967296")]
    BadDivisor {
        /// The pattern.
        pattern: String,
        /// What stands in the braces.
        given: String,
    },
    /// Where a number ends can't be told.
    #[error("in `{pattern}` the number {{{number}}} can't be told from what follows it")]
    Unclear {
        /// The pattern.
        pattern: String,
        /// What stands in the braces.
        number: String,
    },
    /// The place doesn't say the key.
    #[error(
        "`{keys}` with the field `{field}` doesn't say {{{part}}} whole: write {{{part}}} in one of them, or \
         {{{part}/N}} in the one and {{{part}%N}} in the other"
    )]
    Lost {
        /// The pattern of the names.
        keys: String,
        /// The pattern of the fields.
        field: String,
        /// The part that is not said.
        part: String,
    },
    /// The hashes' names begin as keyfold's own.
    #[error("`{keys}` matches `{}`, which is one of keyfold's own names", .example.escape_ascii())]
    Reserved {
        /// The pattern.
        keys: String,
        /// Such a name.
        example: Vec<u8>,
    },
    /// The pattern is too long to be compared with others.
    #[error("the names of the hashes: {0}")]
    Shape(TemplateError),
    /// A number of entries that divides nothing.
    #[error("{given} entries: a bucket of me-redis has 2 to 4294967296")]
    BadEntries {
        /// The number given.
        given: u64,
    },
    /// Keys that me-redis doesn't fold.
    #[error("me-redis folds keys that end with a number, and `{template}` {why}")]
    NotMeRedis {
        /// The template.
        template: String,
        /// What it does instead.
        why: &'static str,
    },
    /// A crumb that me-redis would read as something else than itself.
    #[error("the crumb {crumb:?} {why}")]
    BadCrumb {
        /// The crumb.
        crumb: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
