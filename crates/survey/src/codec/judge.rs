//! The judge of codecs: trained by some values of a namespace, judged and timed by the others.
//!
//! `keyfold plan` and `keyfold analyze` ask it which codecs are worth a placement of their own, `keyfold fold` and
//! `keyfold train` which codec values are written by; so what a plan names is trained when it is carried out.

use keyfold_core::codec::{self, Candidate, CodecRule, Kinds, Owner, Sample};
use keyfold_core::collection::CollectionKind;
use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, Namespace, NamespaceIndex, keys_line};
use keyfold_core::template::Template;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::values::Record;

/// One in so many values judges; the others train.
const JUDGES: u64 = 4;
/// A codec that saves a smaller share of the values' bytes is none. `keyfold plan --prove` takes a prediction for right
/// that is off by as much, and values are only a part of what a key takes: less could not be told from no saving, and
/// would cost its time with every read and write.
const LEAST_SAVING: f64 = 0.05;
/// What a doubling of keyfold's own time is worth: it has as many threads as it is given, and so one percent of memory is
/// worth four of time.
const TIME_EXPONENT: f64 = 0.25;
/// What a request costs keyfold itself, in microseconds, one at a time (`docs/benchmarks.md`): codecs work there.
const REQUEST_US: f64 = 4.0;
/// What a write of one field or member costs it more where the codec must take the whole collection apart: a request more, which reads
/// that first. Without a codec, and by a vocabulary, a script writes it.
const WORKED_OUT_US: f64 = REQUEST_US;
/// Writes to one read.
const WRITES: f64 = 0.1;
/// Values that times are measured by, and how often: the quickest round counts.
const TIMED: usize = 400;
const ROUNDS: usize = 3;

/// Runs the work, and says how many microseconds it took: a survey has no clock.
pub type Stopwatch<'s> = &'s mut dyn FnMut(&mut dyn FnMut()) -> f64;

/// What a codec's microseconds cost beside the bytes that it leaves, of which the natural logarithm counts; `is_worked_out` where a
/// write of one member or field takes a request more because of it.
pub(crate) fn time_score(encode_us: f64, decode_us: f64, is_worked_out: bool) -> f64 {
    let write_us = encode_us + if is_worked_out { WORKED_OUT_US } else { 0.0 };
    TIME_EXPONENT * ((decode_us + WRITES * write_us) / REQUEST_US).ln_1p()
}

/// A codec, with the times that it takes on this machine.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What it was trained to, and what it makes of values that it wasn't trained by.
    pub candidate: Candidate,
    /// Microseconds for one value, on the mean.
    pub encode_us: f64,
    /// The same for the way back.
    pub decode_us: f64,
    /// Whether a write of one member or field takes a round trip more because of it.
    pub is_worked_out: bool,
}

/// Values of one namespace, told apart into those that train and those that judge.
pub(super) struct Judge<'r> {
    templates: &'r [Template],
    collection: Option<CollectionKind>,
    pub(super) train: Vec<&'r Record>,
    pub(super) held_out: Vec<&'r Record>,
    /// The mean of the values that judge, as they are, in bytes.
    pub(super) raw_bytes: f64,
}

impl<'r> Judge<'r> {
    pub(super) fn new(templates: &'r [Template], collection: Option<CollectionKind>, records: &'r [Record]) -> Self {
        let judges = |record: &&Record| xxh3_64_with_seed(&record.key, 6).is_multiple_of(JUDGES);
        let (held_out, train): (Vec<&Record>, Vec<&Record>) = records.iter().partition(judges);
        let mut judge = Self { templates, collection, train, held_out, raw_bytes: 0.0 };
        let bytes = codec::stored_bytes(None, &judge.samples(&judge.held_out));
        judge.raw_bytes = bytes as f64 / judge.held_out.len().max(1) as f64;
        judge
    }

    fn samples(&self, records: &[&'r Record]) -> Vec<Sample<'r>> {
        let sample =
            |record: &&'r Record| Sample { owner: Owner::new(self.templates, &record.key), value: &record.value };
        records.iter().map(sample).collect()
    }

    /// What training makes of a rule, the one of the fewest bytes first; `keys` share a dictionary.
    pub(super) fn candidates(&self, rule: &CodecRule, keys: u64) -> Vec<Candidate> {
        if self.held_out.is_empty() || self.train.is_empty() {
            return Vec::new();
        }
        let (train, held_out) = (self.samples(&self.train), self.samples(&self.held_out));
        let kinds = Kinds::default().for_values_of(self.collection);
        codec::candidates(&kinds, rule, &train, &held_out, keys)
    }

    /// Whether it saves enough to be taken at all.
    pub(super) fn is_worth_it(&self, candidate: &Candidate) -> bool {
        candidate.bytes_a_value <= self.raw_bytes * (1.0 - LEAST_SAVING)
    }

    /// A namespace whose values a candidate writes; none where no layout takes the templates.
    pub(super) fn namespace(&self, candidate: &Candidate) -> Option<Namespace> {
        let keys = keys_line(self.templates);
        let kind = self.collection.map_or(String::new(), |kind| format!("type = \"{}\"\n", kind.name()));
        let file = format!("[[namespace]]\n{keys}\n{kind}bucket = {{ count = 2 }}\ncodec = {}\n", candidate.rule);
        let layout = Layout::parse_file(&file).ok()?;
        let layout = layout.written_by(NamespaceIndex(0), &candidate.rule, candidate.dictionary.as_deref())?;
        layout.namespaces().first().cloned()
    }

    /// Measures a candidate's times in such a namespace.
    pub(super) fn time(&self, candidate: Candidate, namespace: &Namespace, stopwatch: Stopwatch<'_>) -> Judged {
        let records = &self.held_out[..self.held_out.len().min(TIMED)];
        let mut encoded = Vec::new();
        let mut quickest = |work: &mut dyn FnMut()| {
            (0..ROUNDS).map(|_| stopwatch(work)).fold(f64::INFINITY, f64::min) / records.len().max(1) as f64
        };
        let encode_us = quickest(&mut || {
            encoded = records.iter().map(|record| namespace.encode_own(&record.key, &record.value)).collect();
        });
        let mut len = 0;
        let decode_us = quickest(&mut || {
            for (record, stored) in records.iter().zip(&encoded) {
                let value = Frame::decode(stored).ok().map(|frame| namespace.decode(&record.key, &frame, None));
                len += value.and_then(Result::ok).flatten().map_or(0, |value| value.len());
            }
        });
        debug_assert_eq!(len, ROUNDS * records.iter().map(|record| record.value.len()).sum::<usize>());
        let is_worked_out = self.collection.is_some() && candidate.codec.vocabulary().is_none();
        Judged { candidate, encode_us, decode_us, is_worked_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_more_for_each_write_is_worth_some_percent_of_the_bytes() {
        // What sessions take by a vocabulary, and by zstd.
        let more = time_score(5.0, 0.4, true) - time_score(0.3, 0.2, false);
        assert!((0.04..0.08).contains(&more), "{more}");
        assert!(time_score(5.0, 0.4, true) > time_score(5.0, 0.4, false));
    }
}
