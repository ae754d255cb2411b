//! *count* over several templates: their keys share buckets, and fields tell which template a key is of.
//!
//! ```text
//! keys = ["user:{id:int}:seen", "cart:{id:uuid}", "flag:{name}", "seen:{id:int}"], count 1, in each slot
//!
//! user:7:seen    ▶  ~{06S}hY3p;0   14          two templates are of one int alone: 7 · 2 + 0
//! seen:7         ▶  ~{06S}hY3p;0   15                                              7 · 2 + 1
//! cart:9f1c…     ▶  ~{06S}hY3p;0   B‥          its letter, and 16 bytes
//! flag:beta      ▶  ~{06S}hY3p;0   Cbeta
//!
//! field, one int alone      id · n + i as decimal text: the i-th of the n templates of one int alone
//! field, any other          the letter of the template's number, A to Z and then a to z, and what the field would be
//!                           if the template were the only one (see `field.rs`)
//! bucket                    xxh3_64(field) mod count, base62; keyed, the secret's hash
//! ```
//! A listpack stores a small integer in 2 to 4 bytes less than its digits as text. A letter before them would undo
//! that, a factor doesn't: it makes them longer by a byte at the most, for few templates mostly by none. A letter is no
//! digit, so that the two kinds of fields never meet.
//!
//! Nothing is divided, unlike what one template's *count* does: with one bucket in a slot a quotient is as long as what
//! it is of, and buckets of divided and of whole parts would be two.

use smallvec::SmallVec;

use super::Field;
use super::error::PlacementError;
use super::field::{self, Form};
use crate::template::{Part, Parts, Template};

/// So many templates have letters of their own.
pub const MOST_TEMPLATES: usize = LETTERS.len();
const LETTERS: &[u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// How fields tell the templates of one namespace apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    /// For each template: its rank among those of one int alone, where it is one of these.
    ranks: SmallVec<[Option<u8>; 8]>,
    /// How many there are of these.
    ints: u8,
}

impl Shared {
    pub(super) fn new(templates: &[Template]) -> Result<Self, PlacementError> {
        if templates.len() > MOST_TEMPLATES {
            return Err(PlacementError::TooManyTemplates { given: templates.len() });
        }
        let mut ints = 0;
        let ranks = templates.iter().map(|template| {
            let is_int = matches!(template.placeholders(), [only] if only.kind.is_int());
            is_int.then(|| {
                ints += 1;
                ints - 1
            })
        });
        Ok(Self { ranks: ranks.collect(), ints })
    }

    /// Writes the field of a key with these parts, the first of which is its template's number.
    pub(super) fn encode<'t>(&self, form: impl Fn(usize) -> Form<'t>, parts: &[Part<'_>], field: &mut Field) {
        let Some((Part::Int(number), parts)) = parts.split_first() else { return };
        let number = usize::try_from(*number).unwrap_or(usize::MAX);
        match (self.ranks.get(number), parts) {
            (Some(Some(rank)), [Part::Int(id)]) => {
                let number = u128::from(*id) * u128::from(self.ints) + u128::from(*rank);
                field.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            _ => {
                field.push(letter(number));
                field::encode(form(parts.len()), parts.iter(), field);
            }
        }
    }

    /// The parts behind which [`Self::encode`] wrote this field. Other bytes may give some too: the caller encodes what
    /// came of them again, and compares.
    pub(super) fn decode<'f, 't>(
        &self,
        form: impl Fn(usize) -> Form<'t>,
        templates: &[Template],
        field: &'f [u8],
    ) -> Option<Parts<'f>> {
        let (first, rest) = field.split_first()?;
        let (number, mut parts) = if first.is_ascii_digit() {
            let (number, id) = self.decode_int(field)?;
            (number, std::iter::once(Part::Int(id)).collect())
        } else {
            let number = number(*first).filter(|number| matches!(self.ranks.get(*number), Some(None)))?;
            let kinds = templates.get(number)?.placeholders().iter().map(|placeholder| placeholder.kind);
            (number, field::decode(form(kinds.len()), kinds, rest)?)
        };
        parts.insert(0, Part::Int(number as u64));
        Some(parts)
    }

    /// The number of the template of one int alone, and the int.
    fn decode_int(&self, digits: &[u8]) -> Option<(usize, u64)> {
        let number: u128 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let ints = u128::from(self.ints);
        let rank = u8::try_from(number.checked_rem(ints)?).ok()?;
        let template = self.ranks.iter().position(|one| *one == Some(rank))?;
        Some((template, u64::try_from(number / ints).ok()?))
    }
}

/// The letter of the template of this number, below [`MOST_TEMPLATES`].
fn letter(number: usize) -> u8 {
    LETTERS.get(number).copied().unwrap_or_else(|| unreachable!("there are no more templates than letters"))
}

/// The number of the template with this letter.
fn number(letter: u8) -> Option<usize> {
    LETTERS.iter().position(|one| *one == letter)
}
