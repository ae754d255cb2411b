//! Training, and judging what came of it by values that it hasn't seen.

use std::sync::Arc;

use super::{Codec, CodecRule, Kinds, Sample, pack};
use crate::frame;

/// A codec that a namespace could have, and what it makes of values it hasn't seen.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The codec, as a layout names it.
    pub rule: CodecRule,
    /// What it was trained to.
    pub dictionary: Option<Vec<u8>>,
    /// The codec itself.
    pub codec: Arc<dyn Codec>,
    /// What it costs: the mean of the stored values in bytes, each with its share of the dictionary.
    pub bytes_a_value: f64,
}

/// The codecs that `rule` allows (all of them where it is `auto`), trained from some samples and judged by others;
/// the one of the fewest bytes first. `population` is how many values share a dictionary.
pub fn candidates(
    kinds: &Kinds,
    rule: &CodecRule,
    train: &[Sample<'_>],
    held_out: &[Sample<'_>],
    population: u64,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for kind in kinds.iter().filter(|kind| rule.is_auto() || kind.name() == rule.name) {
        let rule = if rule.is_auto() { CodecRule::named(kind.name()) } else { rule.clone() };
        let trained = kind.train(train, &rule.options).into_iter().map(Some);
        let untrained = (!kind.needs_training()).then_some(None);
        for dictionary in trained.chain(untrained) {
            let Ok(codec) = kind.open(&rule.options, dictionary.as_deref()) else { continue };
            let shared = dictionary.as_ref().map_or(0, |dictionary| pack(dictionary).len());
            let bytes = stored_bytes(Some(codec.as_ref()), held_out);
            #[expect(clippy::cast_precision_loss, reason = "means, for comparison")]
            let bytes_a_value = bytes as f64 / held_out.len().max(1) as f64 + shared as f64 / population.max(1) as f64;
            found.push(Candidate { rule: rule.clone(), dictionary, codec, bytes_a_value });
        }
    }
    found.sort_by(|one, other| one.bytes_a_value.total_cmp(&other.bytes_a_value));
    found
}

/// The bytes that these values take as they would be stored, by a codec or by none.
pub fn stored_bytes(codec: Option<&dyn Codec>, samples: &[Sample<'_>]) -> u64 {
    let mut payload = Vec::new();
    let mut sum = 0;
    for Sample { owner, value } in samples {
        payload.clear();
        let raw = frame::raw_len(value, None);
        let coded = codec.filter(|codec| !frame::is_integer(value) && value.len() <= codec.max_len());
        let coded = coded.filter(|codec| codec.encode(value, owner, &mut payload)).map(|_| payload.len() + 1);
        sum += coded.unwrap_or(raw).min(raw) as u64;
    }
    sum
}
