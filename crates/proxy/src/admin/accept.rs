//! What an operator's program says that it reads (`Accept`).

use hyper::header::{ACCEPT, HeaderMap};

/// One kind of content, and how much it is wanted.
struct Wish<'h> {
    kind: &'h str,
    parameters: Vec<(&'h str, &'h str)>,
    /// From 0, which is not at all, to 1.
    quality: f32,
}

/// All that are named; what can't be read is none.
fn wishes(headers: &HeaderMap) -> impl Iterator<Item = Wish<'_>> {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(Wish::read)
}

impl<'h> Wish<'h> {
    fn read(text: &'h str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut parameters, mut quality) = (Vec::new(), 1.0);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            match name.eq_ignore_ascii_case("q") {
                true => quality = value.parse().unwrap_or(0.0),
                false => parameters.push((name, value)),
            }
        }
        Self { kind, parameters, quality }
    }

    /// Whether `content_type` is of this kind, and has all of its parameters.
    fn is_for(&self, content_type: &Wish<'_>) -> bool {
        let is_said = |(name, value): &(&str, &str)| {
            let same =
                |(own, of_it): &(&str, &str)| own.eq_ignore_ascii_case(name) && of_it.eq_ignore_ascii_case(value);
            content_type.parameters.iter().any(same)
        };
        self.kind.eq_ignore_ascii_case(content_type.kind) && self.parameters.iter().all(is_said)
    }
}

/// How much this content is wanted by its name: 0 where it isn't.
pub(super) fn quality(headers: &HeaderMap, content_type: &str) -> f32 {
    let content_type = Wish::read(content_type);
    wishes(headers).filter(|wish| wish.is_for(&content_type)).map(|wish| wish.quality).fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn of(accept: &[&'static str], content_type: &str) -> f32 {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        quality(&headers, content_type)
    }

    #[test]
    fn a_kind_is_wanted_as_much_as_is_said_of_it() {
        assert_eq!(of(&[], "text/html; charset=utf-8"), 0.0);
        assert_eq!(of(&["*/*"], "text/html"), 0.0, "by its name only");
        assert_eq!(of(&["application/json, TEXT/HTML ;q=0.5"], "text/html; charset=utf-8"), 0.5);
        assert_eq!(of(&["text/html;q=0.1", "text/html;q=0.9"], "text/html"), 0.9);
        assert_eq!(of(&["text/html;q=often"], "text/html"), 0.0);
    }

    #[test]
    fn what_a_wish_adds_has_to_be_there() {
        let has = "a/b; encoding=delimited; proto=x";
        assert_eq!(of(&["a/b;proto=x;encoding=delimited"], has), 1.0);
        assert_eq!(of(&["a/b;proto=x;encoding=text"], has), 0.0);
        assert_eq!(of(&["a/b;proto=\"X\";q=0.3"], has), 0.3);
        assert_eq!(of(&["a/b"], has), 1.0);
    }
}
