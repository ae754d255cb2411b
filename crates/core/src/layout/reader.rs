//! What reads a layout's text: where each mistake stands in it, and what is known beside it.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::error::{LayoutError, Problem};
use crate::codec::Kinds;
use crate::placement::Secrets;

/// TOML to fields; its own errors already name the field.
pub(super) fn parse_toml<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, LayoutError> {
    toml::from_str(text).map_err(|error| refusal(text, &error))
}

/// What TOML's reader says of a text.
pub(super) fn refusal(text: &str, error: &toml::de::Error) -> LayoutError {
    let offset = error.span().map_or(0, |span| span.start);
    let message = error.message().replace("expected i64", "expected a whole number");
    // As serde words it. Nothing else tells this mistake from others.
    let is_unknown = message.starts_with("unknown field `");
    LayoutError::at(text, offset, if is_unknown { Problem::UnknownField(message) } else { Problem::Toml(message) })
}

/// A text, and what names in it may mean.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    /// The codecs that a person may name; none in the server's text, where some may be another program's.
    pub(super) kinds: Option<&'t Kinds>,
    pub(super) secrets: &'t Secrets,
    /// Whether places are in the slots of their keys where a namespace doesn't say.
    pub(super) cluster: bool,
}

impl Reader<'_> {
    pub(super) fn error(&self, span: &Range<usize>, problem: Problem) -> LayoutError {
        LayoutError::at(self.text, span.start, problem)
    }

    /// Where a byte of a string stands in the text; the string's own beginning where it has escapes or several lines.
    pub(super) fn offset_in(&self, string: &Spanned<String>, byte: usize) -> usize {
        let span = string.span();
        let written = self.text.get(span.start + 1..span.end.saturating_sub(1));
        let is_verbatim = written == Some(string.get_ref().as_str());
        if is_verbatim { span.start + 1 + byte } else { span.start }
    }
}
