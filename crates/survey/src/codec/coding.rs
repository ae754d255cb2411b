//! The codecs that are weighed with placements, and how long each makes the values of a family.

use std::slice;

use keyfold_core::codec::{self, Candidate, CodecRule};
use keyfold_core::collection::CollectionKind;
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::Namespace;
use keyfold_core::memory::ValueShape;
use keyfold_core::template::Template;

use super::judge::{Judge, Judged, Stopwatch};
use super::lengths::{Coded, Known, Lengths};
use super::values::Record;

/// Of all that are worth it so many are weighed with placements.
const MOST: usize = 3;

/// A codec for a family, and what it makes of its values.
#[derive(Clone, Debug)]
pub struct Coding {
    /// The codec, as a layout names it.
    pub rule: CodecRule,
    /// What it was trained to.
    pub dictionary: Option<Vec<u8>>,
    /// What the server keeps of that, in bytes.
    pub packed_bytes: u64,
    /// The mean of the values that it was judged by, and of what they are stored as, in bytes.
    pub value_bytes: f64,
    /// See [`Self::value_bytes`].
    pub stored_bytes: f64,
    /// How many they are.
    pub judged_by: usize,
    /// Microseconds for one value on this machine, on the mean.
    pub encode_us: f64,
    /// The same for the way back.
    pub decode_us: f64,
    /// Whether a write of one member or field takes a round trip more because of it.
    pub is_worked_out: bool,
    lengths: Lengths,
}

/// The codecs that make a family's values shorter, strings or such collections, the best first and one of each kind; `keys` is
/// how many the family has.
pub fn weigh(
    template: &Template,
    collection: Option<CollectionKind>,
    records: &[Record],
    keys: u64,
    stopwatch: Stopwatch<'_>,
) -> Vec<Coding> {
    let judge = Judge::new(slice::from_ref(template), collection, records);
    let mut best: Vec<Candidate> = Vec::new();
    for candidate in judge.candidates(&CodecRule::named("auto"), keys) {
        let is_another = best.iter().all(|other| other.rule.name != candidate.rule.name);
        if best.len() < MOST && is_another && judge.is_worth_it(&candidate) {
            best.push(candidate);
        }
    }
    best.into_iter().filter_map(|candidate| Coding::new(&judge, candidate, stopwatch)).collect()
}

/// What a value is stored as in a key of its own.
fn stored(namespace: &Namespace, record: &Record) -> Coded {
    let stored = namespace.encode_own(&record.key, &record.value);
    let by_codec = Frame::decode(&stored).is_ok_and(|frame| matches!(frame.body, Body::Coded { .. }));
    Coded { by_codec, len: stored.len() as u64 }
}

impl Coding {
    /// None where no layout takes the template.
    fn new(judge: &Judge<'_>, candidate: Candidate, stopwatch: Stopwatch<'_>) -> Option<Self> {
        let namespace = judge.namespace(&candidate)?;
        let known = |is_trained: bool| {
            let namespace = &namespace;
            move |record: &&Record| {
                Known::new(&record.key, record.value.len() as u64, stored(namespace, record), is_trained)
            }
        };
        let judged: Vec<Known> = judge.held_out.iter().map(known(false)).collect();
        let judged_by = judged.len();
        let mean = |len: fn(&Known) -> u64| judged.iter().map(len).sum::<u64>() as f64 / judged_by as f64;
        let (value_bytes, stored_bytes) = (mean(|one| one.raw_len), mean(|one| one.coded.len));
        let lengths = Lengths::new(judged.into_iter().chain(judge.train.iter().map(known(true))).collect());
        let Judged { candidate: Candidate { rule, dictionary, .. }, encode_us, decode_us, is_worked_out } =
            judge.time(candidate, &namespace, stopwatch);
        let packed_bytes = dictionary.as_deref().map_or(0, |dictionary| codec::pack(dictionary).len() as u64);
        Some(Self {
            rule,
            dictionary,
            packed_bytes,
            value_bytes,
            stored_bytes,
            judged_by,
            encode_us,
            decode_us,
            is_worked_out,
            lengths,
        })
    }

    /// How many times shorter it makes the values; never below 1.
    pub fn ratio(&self) -> f64 {
        (self.value_bytes / self.stored_bytes.max(1.0)).max(1.0)
    }

    /// What the values of a sample's keys are stored as, for a family of `keys`.
    pub(crate) fn coded<'k>(
        &self,
        sample: impl Iterator<Item = (&'k [u8], ValueShape)> + Clone,
        keys: u64,
    ) -> Vec<Coded> {
        let (mut sampled, mut trained) = (0, 0);
        for (key, value) in sample.clone() {
            sampled += 1;
            trained += usize::from(self.lengths.is_trained(key, value.len()));
        }
        let weight = self.lengths.trained_weight(trained, sampled, keys);
        sample.map(|(key, value)| self.lengths.of(key, value, weight)).collect()
    }
}
