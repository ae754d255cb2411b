//! The sampled keys of a family, taken apart once for all the placements that are weighed.

use keyfold_core::frame;
use keyfold_core::memory::ValueShape;
use keyfold_core::template::{Parts, Template};

use crate::population::{Population, SampledKey};

/// When keys that expire do: a time that a stored value's short form holds, as nearly all are.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;

/// One sampled key.
#[derive(Debug)]
pub(super) struct Member<'p> {
    pub(super) key: &'p [u8],
    pub(super) parts: Parts<'p>,
    pub(super) value: ValueShape,
    /// The value as a field holds it, with its expiry.
    pub(super) stored: ValueShape,
    pub(super) has_expiry: bool,
}

/// The keys of the sample that match the family's template.
pub(super) fn members<'p>(population: &Population<'p>) -> Vec<Member<'p>> {
    population.sample.iter().filter_map(|sampled| member(population.template, sampled)).collect()
}

fn member<'p>(template: &Template, sampled: &'p SampledKey) -> Option<Member<'p>> {
    let mut parts = Parts::new();
    let SampledKey { key, value, has_expiry } = sampled;
    let (value, has_expiry) = (*value, *has_expiry);
    let matches = template.parse_key(key, &mut parts);
    matches.then(|| Member { key, parts, value, stored: stored(value, has_expiry), has_expiry })
}

/// The shape of what a field holds for a value, unless it is spilled.
fn stored(value: ValueShape, has_expiry: bool) -> ValueShape {
    let mut bytes = Vec::new();
    match value {
        _ if !has_expiry => return value,
        ValueShape::Integer(number) => frame::encode(number.to_string().as_bytes(), Some(EXPIRES_AT_MS), &mut bytes),
        // The frame's head, in front of whatever bytes the value has.
        ValueShape::Bytes(len) => {
            frame::encode(b"", Some(EXPIRES_AT_MS), &mut bytes);
            return ValueShape::Bytes(bytes.len() as u64 + len);
        }
    }
    ValueShape::Bytes(bytes.len() as u64)
}

/// What a field holds where the value is spilled.
pub(super) fn spilled(has_expiry: bool) -> ValueShape {
    let mut bytes = Vec::new();
    frame::encode_spill(u64::MAX, has_expiry.then_some(EXPIRES_AT_MS), &mut bytes);
    ValueShape::Bytes(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &[u8], has_expiry: bool) -> u64 {
        let mut bytes = Vec::new();
        frame::encode(value, has_expiry.then_some(EXPIRES_AT_MS), &mut bytes);
        bytes.len() as u64
    }

    #[test]
    fn stored_values_are_as_long_as_the_core_makes_them() {
        for value in ["", "x", "some text", "0", "255", "-70000", "9223372036854775807"] {
            for has_expiry in [false, true] {
                let shape = stored(ValueShape::of(value.as_bytes()), has_expiry);
                assert_eq!(shape.len(), encoded(value.as_bytes(), has_expiry), "{value:?} {has_expiry}");
            }
        }
        assert_eq!(stored(ValueShape::Integer(7), false), ValueShape::Integer(7));
        assert_eq!((spilled(false).len(), spilled(true).len()), (9, 14));
    }
}
