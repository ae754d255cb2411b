//! The pattern of a name or of a field: literal text and numbers, written and read.
//!
//! | in braces | the number |
//! | --- | --- |
//! | `{id}` | the whole of the part `id` |
//! | `{id/1000}` | how often 1000 goes into it |
//! | `{id%1000}` | what is left then |
//! | `{id/512:base62}` | any of them in base62 instead of decimal |

use smallvec::SmallVec;

use super::digits::Digits;
use super::error::HandmadeError;
use crate::placement::span;
use crate::template::{Part, Template};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Number(Number),
}

/// One number of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) part: usize,
    pub(super) share: Share,
    pub(super) digits: Digits,
}

/// What of a part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    Whole,
    Quotient(u64),
    Remainder(u64),
}

/// The numbers that were read from a name and a field.
#[derive(Debug, Default)]
pub(super) struct Found(SmallVec<[(usize, Share, u64); 4]>);

impl Found {
    /// The number of this part, put together from what was found.
    pub(super) fn part(&self, part: usize) -> Option<u64> {
        let mut shares = self.0.iter().filter(|(of, ..)| *of == part);
        if let Some((.., number)) = shares.clone().find(|(_, share, _)| *share == Share::Whole) {
            return Some(*number);
        }
        let (quotient, by) = shares.clone().find_map(|(_, share, number)| match share {
            Share::Quotient(by) => Some((*number, *by)),
            _ => None,
        })?;
        let (.., rest) = shares.find(|(_, share, _)| *share == Share::Remainder(by))?;
        quotient.checked_mul(by)?.checked_add(*rest)
    }
}

impl Pattern {
    pub(super) fn new() -> Self {
        Self { pieces: Vec::new() }
    }

    pub(super) fn push_literal(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Literal(literal)) => literal.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Literal(bytes.to_vec())),
        }
    }

    pub(super) fn push_number(&mut self, number: Number) {
        self.pieces.push(Piece::Number(number));
    }

    pub(super) fn parse(template: &Template, source: &str) -> Result<Self, HandmadeError> {
        let mut pattern = Self::new();
        let mut rest = source;
        while !rest.is_empty() {
            if let Some(brace) = ["{{", "}}"].into_iter().find(|brace| rest.starts_with(brace)) {
                pattern.push_literal(&brace.as_bytes()[..1]);
                rest = &rest[2..];
            } else if let Some(inner) = rest.strip_prefix('{') {
                let Some((inner, after)) = inner.split_once('}') else { return Err(brace(source)) };
                pattern.push_number(read_number(template, source, inner)?);
                rest = after;
            } else {
                let len = rest.find(['{', '}']).unwrap_or(rest.len());
                if len == 0 {
                    return Err(brace(source));
                }
                pattern.push_literal(&rest.as_bytes()[..len]);
                rest = &rest[len..];
            }
        }
        Ok(pattern)
    }

    /// The pattern as it would be written for `template`.
    pub(super) fn show(&self, template: &Template) -> String {
        let mut shown = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => shown.push_str(&escaped(literal)),
                Piece::Number(number) => {
                    shown.push('{');
                    shown.push_str(&number.show(template));
                    shown.push('}');
                }
            }
        }
        shown
    }

    /// A template that all names match: numbers in base62 as text.
    pub(super) fn shape(&self) -> Result<Template, HandmadeError> {
        let mut source = String::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Literal(literal) => source.push_str(&escaped(literal)),
                Piece::Number(Number { digits: Digits::Decimal, .. }) => source.push_str(&format!("{{n{at}:int}}")),
                Piece::Number(Number { digits: Digits::Base62, .. }) => source.push_str(&format!("{{n{at}}}")),
            }
        }
        Template::parse(&source).map_err(HandmadeError::Shape)
    }

    /// Refuses a number whose end could not be told.
    pub(super) fn check_ends(&self, template: &Template) -> Result<(), HandmadeError> {
        for pair in self.pieces.windows(2) {
            let [Piece::Number(number), next] = pair else { continue };
            let goes_on = match next {
                Piece::Number(_) => true,
                Piece::Literal(literal) => literal.first().is_some_and(|byte| number.digits.has(*byte)),
            };
            if goes_on {
                let (pattern, number) = (self.show(template), number.show(template));
                return Err(HandmadeError::Unclear { pattern, number });
            }
        }
        Ok(())
    }

    /// Writes it for a key with these parts; none where they aren't what the pattern is made for.
    pub(super) fn write(&self, parts: &[Part<'_>], out: &mut impl Extend<u8>) -> Option<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => out.extend(literal.iter().copied()),
                Piece::Number(Number { part, share, digits }) => {
                    let Part::Int(whole) = parts.get(*part)? else { return None };
                    let number = match share {
                        Share::Whole => *whole,
                        Share::Quotient(by) => whole / by,
                        Share::Remainder(by) => whole % by,
                    };
                    digits.write(number, out);
                }
            }
        }
        Some(())
    }

    /// Reads all of `text`; none where it isn't of this pattern.
    pub(super) fn read(&self, mut text: &[u8], found: &mut Found) -> Option<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => text = text.strip_prefix(literal.as_slice())?,
                Piece::Number(Number { part, share, digits }) => {
                    found.0.push((*part, *share, digits.read(&mut text)?));
                }
            }
        }
        text.is_empty().then_some(())
    }

    fn says(&self, wanted: impl Fn(&Number) -> bool) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Number(number) if wanted(number)))
    }

    fn quotient_of(&self, part: usize) -> impl Iterator<Item = u64> {
        self.pieces.iter().filter_map(move |piece| match piece {
            Piece::Number(Number { part: of, share: Share::Quotient(by), .. }) if *of == part => Some(*by),
            _ => None,
        })
    }
}

/// Refuses patterns that together don't say every part.
pub(super) fn check_parts(template: &Template, keys: &Pattern, field: &Pattern) -> Result<(), HandmadeError> {
    let says = |wanted: Number| {
        let is = |number: &Number| (number.part, number.share) == (wanted.part, wanted.share);
        keys.says(is) || field.says(is)
    };
    for (part, placeholder) in template.placeholders().iter().enumerate() {
        let number = |share| Number { part, share, digits: Digits::Decimal };
        // The first of several quotients is the one that is put together again.
        let divided = keys.quotient_of(part).chain(field.quotient_of(part)).next();
        if !says(number(Share::Whole)) && !divided.is_some_and(|by| says(number(Share::Remainder(by)))) {
            let (keys, field, part) = (keys.show(template), field.show(template), placeholder.name.clone());
            return Err(HandmadeError::Lost { keys, field, part });
        }
    }
    Ok(())
}

impl Number {
    fn show(self, template: &Template) -> String {
        let name = template.placeholders().get(self.part).map_or("", |placeholder| placeholder.name.as_str());
        let base = if self.digits == Digits::Base62 { ":base62" } else { "" };
        match self.share {
            Share::Whole => format!("{name}{base}"),
            Share::Quotient(by) => format!("{name}/{by}{base}"),
            Share::Remainder(by) => format!("{name}%{by}{base}"),
        }
    }
}

fn read_number(template: &Template, pattern: &str, given: &str) -> Result<Number, HandmadeError> {
    let bad = || HandmadeError::BadPiece { pattern: pattern.to_owned(), given: given.to_owned() };
    let (sum, digits) = match given.split_once(':') {
        None => (given, Digits::Decimal),
        Some((sum, "base62")) => (sum, Digits::Base62),
        Some(_) => return Err(bad()),
    };
    let (name, operation) = match sum.find(['/', '%']) {
        Some(at) => (&sum[..at], Some(sum.split_at(at).1.split_at(1))),
        None => (sum, None),
    };
    if name.is_empty() {
        return Err(bad());
    }
    let share = match operation {
        None => Share::Whole,
        Some((sign, divisor)) => {
            let by = divisor.parse().ok().filter(|by| (2..=span::MAX).contains(by));
            let by =
                by.ok_or_else(|| HandmadeError::BadDivisor { pattern: pattern.to_owned(), given: given.to_owned() })?;
            if sign == "/" { Share::Quotient(by) } else { Share::Remainder(by) }
        }
    };
    let part = template.position(name).ok_or_else(|| HandmadeError::UnknownPart {
        pattern: pattern.to_owned(),
        name: name.to_owned(),
        have: template.placeholders().iter().map(|placeholder| placeholder.name.clone()).collect(),
    })?;
    Ok(Number { part, share, digits })
}

fn brace(pattern: &str) -> HandmadeError {
    HandmadeError::Brace { pattern: pattern.to_owned() }
}

/// A literal as a pattern or a template writes it. It came from text, and so it is text.
fn escaped(literal: &[u8]) -> String {
    String::from_utf8_lossy(literal).replace('{', "{{").replace('}', "}}")
}
