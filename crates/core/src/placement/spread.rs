//! A part as one number, divided by the count of buckets and put back together.
//!
//! ```text
//! int    x = the number                               q as a number
//! hex    x = the last 8 bytes                         q in as many bytes as its largest needs, then the
//!                                                     bytes before the last 8
//! uuid   x = rank(variant) · 2¹²⁶ + rank(version) · 2¹²² + the other bits
//!                                                     q in as few bytes as it needs, the highest first
//!
//!        time_low – time_mid – ver time_hi – var clock_seq – node
//!        32         16         4   12        2   14          48      bits; ver and var are not among the 122
//! ```
//! Ranks give what is in use the smallest numbers. Of variants the RFC's, 10, is 0, and then 00, 01, 11; of versions 4 is
//! 0, 7 is 1, and then 0, 1, 2, 3, 5, 6, 8 … 15. So a v4 uuid over 4,096 buckets leaves 110 bits, 14 bytes, for its
//! field, and a hash that is written as a uuid, which may be of any variant, has its place among the others.

use std::borrow::Cow;

use super::Field;
use crate::template::{Part, Type, hex_bytes};

/// A part divided by the count of buckets.
pub(super) struct Divided<'b> {
    pub(super) quotient: Part<'b>,
    pub(super) remainder: u64,
}

/// Divides `part`; the quotient's bytes lie in `buffer`. None where it can't be taken as a number.
pub(super) fn divide<'b>(part: &Part<'_>, count: u64, buffer: &'b mut Field) -> Option<Divided<'b>> {
    match part {
        Part::Int(x) => Some(Divided { quotient: Part::Int(x / count), remainder: x % count }),
        Part::Uuid(uuid) => {
            let x = uuid_number(*uuid);
            let quotient = x / u128::from(count);
            let (_, remainder) = halves(x - quotient * u128::from(count));
            let skip = quotient.leading_zeros() as usize / 8;
            buffer.extend_from_slice(&quotient.to_be_bytes()[skip..]);
            Some(Divided { quotient: Part::Text(Cow::Borrowed(buffer)), remainder })
        }
        Part::Hex(digits) => {
            let (before, last) = digits.split_at(digits.len().checked_sub(16)?);
            let x = hex_bytes(last).fold(0, |x: u64, byte| x << 8 | u64::from(byte));
            buffer.extend_from_slice(&(x / count).to_be_bytes()[8 - quotient_bytes(count)..]);
            buffer.extend(hex_bytes(before));
            Some(Divided { quotient: Part::Text(Cow::Borrowed(buffer)), remainder: x % count })
        }
        Part::Text(_) => None,
    }
}

/// What kind of item the quotient of a part of this type is.
pub(super) fn quotient_kind(kind: Type) -> Type {
    if kind.is_int() { Type::Int } else { Type::Text }
}

/// The part of type `kind` that [`divide`] divided.
pub(super) fn restore(kind: Type, quotient: &Part<'_>, remainder: u64, count: u64) -> Option<Part<'static>> {
    match (kind, quotient) {
        (Type::Int | Type::Padded(_), Part::Int(quotient)) => {
            Some(Part::Int(quotient.checked_mul(count)?.checked_add(remainder)?))
        }
        (Type::Uuid, Part::Text(bytes)) if bytes.len() <= 16 => {
            let quotient = bytes.iter().fold(0, |quotient: u128, byte| quotient << 8 | u128::from(*byte));
            Some(Part::Uuid(number_uuid(quotient.checked_mul(count.into())?.checked_add(remainder.into())?)))
        }
        (Type::Hex, Part::Text(bytes)) => {
            let (quotient, before) = bytes.split_at_checked(quotient_bytes(count))?;
            let quotient = quotient.iter().fold(0, |quotient: u64, byte| quotient << 8 | u64::from(*byte));
            let x = quotient.checked_mul(count)?.checked_add(remainder)?;
            Some(Part::hex(before.iter().copied().chain(x.to_be_bytes())))
        }
        _ => None,
    }
}

/// How many bytes the largest quotient of 8 bytes needs.
fn quotient_bytes(count: u64) -> usize {
    8 - (u64::MAX / count).leading_zeros() as usize / 8
}

/// The rank of each version, see the file's head.
const VERSION_RANKS: [u8; 16] = [2, 3, 4, 5, 0, 6, 7, 1, 8, 9, 10, 11, 12, 13, 14, 15];
/// The version of each rank.
const VERSIONS: [u8; 16] = [4, 7, 0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15];
/// The rank of each variant.
const VARIANT_RANKS: [u8; 4] = [1, 2, 0, 3];
/// The variant of each rank.
const VARIANTS: [u8; 4] = [0b10, 0b00, 0b01, 0b11];

/// The number of a uuid: each has its own, and those of the RFC's variant are below 2¹²⁶.
fn uuid_number(uuid: u128) -> u128 {
    let (high, low) = halves(uuid);
    let variant = VARIANT_RANKS[(low >> 62) as usize];
    let version = VERSION_RANKS[(high >> 12 & 15) as usize];
    // The 60 bits of time around the version.
    let time = high >> 16 << 12 | high & 0xfff;
    u128::from(variant) << 126 | u128::from(version) << 122 | u128::from(time) << 62 | u128::from(low & LOW_62)
}

/// The uuid of this number.
fn number_uuid(number: u128) -> u128 {
    let rank = halves(number >> 122).1;
    let (variant, version) = (VARIANTS[(rank >> 4) as usize], VERSIONS[(rank & 15) as usize]);
    let time = halves(number >> 62).1 & ((1 << 60) - 1);
    let high = time >> 12 << 16 | u64::from(version) << 12 | time & 0xfff;
    let low = u64::from(variant) << 62 | halves(number).1 & LOW_62;
    u128::from(high) << 64 | u128::from(low)
}

const LOW_62: u64 = (1 << 62) - 1;

/// The higher and the lower 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
fn halves(bits: u128) -> (u64, u64) {
    ((bits >> 64) as u64, bits as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_are_inverses() {
        for (version, &rank) in VERSION_RANKS.iter().enumerate() {
            assert_eq!(usize::from(VERSIONS[usize::from(rank)]), version);
        }
        for (variant, &rank) in VARIANT_RANKS.iter().enumerate() {
            assert_eq!(usize::from(VARIANTS[usize::from(rank)]), variant);
        }
    }

    #[test]
    fn uuids_in_use_have_the_smallest_numbers() {
        assert_eq!(uuid_number(0xffff_ffff_ffff_4fff_bfff_ffff_ffff_ffff), (1 << 122) - 1);
        assert_eq!(uuid_number(0xffff_ffff_ffff_7fff_bfff_ffff_ffff_ffff), (1 << 123) - 1);
        assert_eq!(uuid_number(0xffff_ffff_ffff_ffff_bfff_ffff_ffff_ffff), (1 << 126) - 1);
        assert_eq!(uuid_number(0), (1 << 126) + (2 << 122));
        assert_eq!(uuid_number(u128::MAX), u128::MAX);
    }

    proptest! {
        #[test]
        fn a_uuid_and_its_number_are_inverses(bits: u128) {
            prop_assert_eq!(uuid_number(number_uuid(bits)), bits);
            prop_assert_eq!(number_uuid(uuid_number(bits)), bits);
        }

        #[test]
        fn a_uuid_divided_comes_back(bits: u128, count in 2_u64..1 << 32) {
            let mut buffer = Field::new();
            let divided = divide(&Part::Uuid(bits), count, &mut buffer).unwrap();
            let back = restore(Type::Uuid, &divided.quotient, divided.remainder, count);
            prop_assert_eq!(back, Some(Part::Uuid(bits)));
        }
    }
}
