//! Why a template is refused.

use super::Type;

/// Why a template is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Nothing at all.
    #[error("the template is empty; write the keys' shape, as in `user:{{id:int}}`")]
    Empty,
    /// Longer than what is read.
    #[error("the template has {bytes} bytes; {max} is the most")]
    TooLong {
        /// The template's length.
        bytes: usize,
        /// The longest that is read.
        max: usize,
    },
    /// It matches one key only.
    #[error("the template has no placeholder; put one where the keys differ, as in `user:{{id:int}}`")]
    NoPlaceholder,
    /// `{` without `}`.
    #[error("the `{{` at byte {at} is never closed; write `{{{{` for a brace in the key")]
    Unclosed {
        /// The brace's offset in the template.
        at: usize,
    },
    /// `}` without `{`.
    #[error("the `}}` at byte {at} closes nothing; write `}}}}` for a brace in the key")]
    Stray {
        /// The brace's offset in the template.
        at: usize,
    },
    /// `{}` or `{:int}`.
    #[error("the placeholder at byte {at} has no name; write `{{name}}` or `{{name:type}}`")]
    Unnamed {
        /// The placeholder's offset in the template.
        at: usize,
    },
    /// A name of other characters.
    #[error("the placeholder name {name:?} holds something other than letters, digits, `_` and `-`")]
    BadName {
        /// The name as written.
        name: String,
    },
    /// One name twice.
    #[error("two placeholders are named `{name}`; give each a name of its own")]
    Duplicate {
        /// The name they share.
        name: String,
    },
    /// A type that there is not.
    #[error(
        "`{{{name}:{given}}}`: unknown type {given:?}; there are `int`, `int(12)` (zero-padded), `uuid` and `hex`, \
         and text is written without a type, `{{{name}}}`"
    )]
    UnknownType {
        /// The placeholder.
        name: String,
        /// What stands after its colon.
        given: String,
    },
    /// `int(0)`, `int(19)`, `int(x)`.
    #[error("`{{{name}:{given}}}`: a zero-padded int has 1 to 18 digits, as in `{{{name}:int(12)}}`")]
    BadWidth {
        /// The placeholder.
        name: String,
        /// What stands after its colon.
        given: String,
    },
    /// Text directly followed by a placeholder.
    #[error("nothing tells where text `{{{name}}}` ends and `{{{next}}}` begins; put a literal between them")]
    Unbounded {
        /// The text placeholder.
        name: String,
        /// The one that follows.
        next: String,
    },
    /// A run directly followed by a placeholder that could continue it.
    #[error("`{{{name}:{kind}}}` would swallow the start of `{{{next}}}`; put a literal between them")]
    SwallowsPlaceholder {
        /// The placeholder that takes the longest run.
        name: String,
        /// Its type.
        kind: Type,
        /// The one that follows.
        next: String,
    },
    /// A run directly followed by a literal that could continue it.
    #[error("`{{{name}:{kind}}}` would swallow the {byte:?} that begins the literal after it; separate them")]
    SwallowsLiteral {
        /// The placeholder that takes the longest run.
        name: String,
        /// Its type.
        kind: Type,
        /// The literal's first byte.
        byte: char,
    },
}
