//! From which length on a value is spilled, and from which a field keeps its key plain.

use keyfold_core::layout::{DEFAULT_FIELD_LIMIT, DEFAULT_VALUE_LIMIT};
use keyfold_core::memory::{Limits, Model};
use keyfold_core::placement::Placement;
use keyfold_core::placement::name::Stem;

use super::Aims;
use super::judge::MOST_ENTRIES;
use super::members::{MOST_PACKED_BYTES, Member, are_large};
use super::weigh::{Rule, Scales};

/// Longer values gain nothing worth having: the overhead that folding saves is small beside them, and a bucket of
/// them is moved as a whole when it is written.
const MOST_VALUE_BYTES: u64 = 8192;
/// Longer fields are no keys that folding is for.
const MOST_FIELD_BYTES: u64 = 512;
/// Limits are multiples of it, as they are numbers that people read.
const STEP: u64 = 32;
/// Shares of values that may stay below the limit.
const SHARES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];
/// A longer limit has to save this much of what the keys take now.
const WORTH: f64 = 0.005;

/// A codec that is trained again, as a fold does it, stores a value in up to so many times the bytes.
const TRAINED_AGAIN: f64 = 1.5;

/// Both limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LengthLimits {
    pub(super) value: u64,
    pub(super) field: u64,
}

impl LengthLimits {
    /// The setting that takes them: `hash-max-listpack-value`.
    pub(super) fn listpack_value(self) -> u64 {
        self.value.max(self.field)
    }

    pub(super) fn rule(self, placement: Placement) -> Rule {
        Rule { placement, value_limit: self.value, field_limit: self.field }
    }
}

/// The model of the server with its settings as these limits need them.
pub(super) fn sufficient(model: &Model, has: Limits, limits: LengthLimits) -> Model {
    model.clone().with_limits(Limits {
        hash_entries: has.hash_entries.max(MOST_ENTRIES),
        hash_value_bytes: has.hash_value_bytes.max(limits.listpack_value()),
        ..has
    })
}

/// The least limits whose bytes are hardly more than the best, for `placement`, which stands for all.
pub(super) fn choose(
    scales: &Scales<'_, '_>,
    model: &Model,
    aims: &Aims,
    placement: &Placement,
    now_bytes: f64,
) -> LengthLimits {
    let has = aims.limits;
    // Where settings stay as they are, no limit passes them.
    let most = if aims.keeps_settings { has.hash_value_bytes.max(1) } else { u64::MAX };
    let most = if are_large(scales.members) { most.min(MOST_PACKED_BYTES) } else { most };
    let values = capped(value_limits(scales.members), most);
    let fields = capped(field_limits(scales.members, placement), most);
    let ways = values.iter().flat_map(|value| fields.iter().map(|field| LengthLimits { value: *value, field: *field }));
    let mut weighed: Vec<_> = ways
        .map(|limits| {
            let model = sufficient(model, has, limits);
            (scales.weigh(&model, &limits.rule(placement.clone())).footprint.smooth_bytes(), limits)
        })
        .collect();
    let best = weighed.iter().map(|(bytes, _)| *bytes).fold(f64::INFINITY, f64::min);
    // What lies in parts takes the same by any limit.
    let worth = WORTH * now_bytes * share_in_buckets(scales, model);
    weighed.retain(|(bytes, _)| *bytes <= best + worth);
    let least = weighed.into_iter().min_by_key(|(_, limits)| (limits.listpack_value(), limits.value));
    let default = LengthLimits { value: DEFAULT_VALUE_LIMIT as u64, field: DEFAULT_FIELD_LIMIT as u64 };
    let LengthLimits { value, field } = least.map_or(default, |(_, limits)| limits);
    LengthLimits { value: value.max(roomy(scales, value).min(most)), field }
}

/// The limit that still has all it has, once their codec has been trained again: a set or hash of many members that comes over it
/// lies in parts, which take many times what it does as one value.
fn roomy(scales: &Scales<'_, '_>, limit: u64) -> u64 {
    if scales.coding.is_none_or(|coding| coding.dictionary.is_none()) {
        return limit;
    }
    let coded = |member: &&Member<'_>| member.in_parts.is_some() && member.stored.len() < member.value.len();
    let lengths = scales.members.iter().filter(coded).map(|member| member.stored.len());
    let longest = lengths.filter(|len| *len <= limit).max().unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length")]
    let room = (longest as f64 * TRAINED_AGAIN).ceil() as u64;
    room.next_multiple_of(STEP)
}

/// Of what the keys take now, the share of those that aren't to lie in parts.
fn share_in_buckets(scales: &Scales<'_, '_>, model: &Model) -> f64 {
    let bytes = |such: fn(&Member<'_>) -> bool| {
        scales.members.iter().filter(|member| such(member)).map(|member| member.plain_bytes(model)).sum::<u64>() as f64
    };
    bytes(|member| !member.is_large()) / bytes(|_| true).max(1.0)
}

/// The limits that are not over the most that there may be; that itself where all are.
fn capped(mut limits: Vec<u64>, most: u64) -> Vec<u64> {
    limits.iter_mut().for_each(|limit| *limit = (*limit).min(most));
    limits.dedup();
    limits
}

fn value_limits(members: &[Member<'_>]) -> Vec<u64> {
    let lengths = members.iter().map(|member| member.stored.len()).collect();
    steps(lengths, DEFAULT_VALUE_LIMIT as u64, MOST_VALUE_BYTES)
}

fn field_limits(members: &[Member<'_>], placement: &Placement) -> Vec<u64> {
    let length = |member: &Member<'_>| {
        let (mut name, mut field) = Default::default();
        placement.locate(placement.origin(Stem::ANY, member.key), &member.parts, &mut name, &mut field);
        field.len() as u64
    };
    steps(members.iter().map(length).collect(), DEFAULT_FIELD_LIMIT as u64, MOST_FIELD_BYTES)
}

/// The limits worth trying for such lengths, each once.
fn steps(mut lengths: Vec<u64>, least: u64, most: u64) -> Vec<u64> {
    lengths.sort_unstable();
    let limit = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let at = ((lengths.len() as f64 * share).ceil() as usize).saturating_sub(1);
        lengths.get(at).copied().unwrap_or(0).next_multiple_of(STEP).clamp(least, most)
    };
    let mut limits = vec![least];
    limits.extend(SHARES.map(limit));
    limits.dedup();
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_lengths() {
        assert_eq!(steps((1..=30).collect(), 64, 8192), [64]);
        assert_eq!(steps((1..=1000).collect(), 64, 8192), [64, 512, 928, 992, 1024]);
        assert_eq!(steps(vec![100_000], 64, 8192), [64, 8192]);
        assert_eq!(steps(vec![], 64, 8192), [64]);
    }
}
