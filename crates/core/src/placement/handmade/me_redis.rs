//! The convention of the Ruby gem me-redis, which folds keys into hashes for an application.
//!
//! ```text
//! user:100, crumbs user=u, 64 entries    me_set ▶ HSET u:1 A …     100 / 64 = 1, 100 % 64 = 36, in base62 A
//! ```
//! By its source (github.com/alekseyl/me-redis, `lib/me_redis/zip_to_hash.rb` and `zip_keys.rb`): the digits that a
//! key ends with are divided by `hash_max_ziplist_entries`, 512 by default; the quotient takes their place, and what
//! is left is the field. Then the name is shortened: of each crumb, the longest first, the short form, and of each
//! number base62, where `integers_to_base62` is set. So the bucket's number is in base62 as well as the field.
//!
//! What the gem does to a key that has the form of a crumb by chance can't be told from its short form; crumbs with
//! digits or with signs of regular expressions, which the gem takes as such, are refused.

use std::collections::BTreeMap;

use super::Handmade;
use super::digits::Digits;
use super::error::HandmadeError;
use super::packing::Packing;
use super::pattern::{Number, Pattern, Share};
use crate::placement::span;
use crate::template::{Piece, Template, Type};

/// How me-redis was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeRedis {
    crumbs: BTreeMap<String, String>,
    entries: u64,
    packing: Packing,
}

/// What a regular expression would take for something else than itself.
const SIGNS: &str = r".*+?()[]{}|^$\";

impl MeRedis {
    /// What it has where nothing is configured.
    pub const DEFAULT_ENTRIES: u64 = 512;

    /// A configuration: crumbs with their short forms, and `hash_max_ziplist_entries`.
    ///
    /// # Errors
    /// A crumb that the gem would not take as it stands, or twice.
    pub fn new(crumbs: &[(String, String)], entries: u64, packing: Packing) -> Result<Self, HandmadeError> {
        let mut known = BTreeMap::new();
        for (crumb, short) in crumbs {
            let bad = |why| HandmadeError::BadCrumb { crumb: crumb.clone(), why };
            if crumb.is_empty() {
                return Err(bad("is empty"));
            }
            if crumb.bytes().any(|byte| byte.is_ascii_digit()) {
                return Err(bad("has digits, which me-redis takes for numbers"));
            }
            if crumb.contains(|sign| SIGNS.contains(sign)) {
                return Err(bad("has signs of regular expressions, which me-redis takes as such"));
            }
            if known.values().any(|other| other == short) {
                return Err(bad("has the short form of another one, so that keys can't be told apart"));
            }
            if known.insert(crumb.clone(), short.clone()).is_some() {
                return Err(bad("is there twice"));
            }
        }
        if !(2..=span::MAX).contains(&entries) {
            return Err(HandmadeError::BadEntries { given: entries });
        }
        Ok(Self { crumbs: known, entries, packing })
    }

    /// Where it put keys of `template`.
    ///
    /// # Errors
    /// Keys that it doesn't fold, or can't be told again.
    pub fn rule(&self, template: &Template) -> Result<Handmade, HandmadeError> {
        let refuse = |why| HandmadeError::NotMeRedis { template: template.to_string(), why };
        let mut keys = Pattern::new();
        let mut part = 0;
        let pieces = template.pieces();
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Literal(literal) => {
                    let shortened = self.shorten(&String::from_utf8_lossy(literal));
                    keys.push_literal(shortened.ok_or_else(|| refuse("has a number of over 19 digits"))?.as_bytes());
                }
                Piece::Placeholder(kind) => {
                    let before = at.checked_sub(1).and_then(|before| pieces.get(before));
                    if matches!(before, Some(Piece::Literal(literal)) if literal.last().is_some_and(u8::is_ascii_digit))
                    {
                        return Err(refuse("has digits right before one, which belong to it there"));
                    }
                    let is_last = at + 1 == pieces.len();
                    if !is_last && matches!(kind, Type::Padded(_)) {
                        return Err(refuse("has one with leading zeros before it, which are not all kept there"));
                    }
                    let share = if is_last { Share::Quotient(self.entries) } else { Share::Whole };
                    keys.push_number(Number { part, share, digits: Digits::Base62 });
                    part += 1;
                }
            }
        }
        if !matches!(pieces.last(), Some(Piece::Placeholder(kind)) if kind.is_int()) {
            return Err(refuse("doesn't"));
        }
        let mut field = Pattern::new();
        field.push_number(Number { part: part - 1, share: Share::Remainder(self.entries), digits: Digits::Base62 });
        Handmade::of(template, keys, field, self.packing)
    }

    /// Literal text as the gem shortens it: from the left, the longest crumb first, numbers in base62.
    fn shorten(&self, literal: &str) -> Option<String> {
        let mut crumbs: Vec<_> = self.crumbs.iter().collect();
        crumbs.sort_by_key(|(crumb, _)| std::cmp::Reverse(crumb.chars().count()));
        let mut shortened = String::new();
        let mut rest = literal;
        while let Some(first) = rest.chars().next() {
            if let Some((crumb, short)) = crumbs.iter().find(|(crumb, _)| rest.starts_with(crumb.as_str())) {
                shortened.push_str(short);
                rest = &rest[crumb.len()..];
            } else if first.is_ascii_digit() {
                let len = rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len());
                shortened.push_str(&shorten_number(&rest[..len])?);
                rest = &rest[len..];
            } else {
                shortened.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        Some(shortened)
    }
}

/// Zeros alone stay as they are there; none where the number is too large for here.
fn shorten_number(digits: &str) -> Option<String> {
    let number = digits.parse::<u64>().ok()?;
    if number == 0 {
        return Some(digits.to_owned());
    }
    let mut out = Vec::new();
    Digits::Base62.write(number, &mut out);
    String::from_utf8(out).ok()
}
