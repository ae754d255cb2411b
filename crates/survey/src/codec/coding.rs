//! A codec, trained by some values of a family and judged by others.

use keyfold_core::codec::{self, Candidate, CodecRule, Kinds, Owner, Sample};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, Namespace, NamespaceIndex};
use keyfold_core::memory::ValueShape;
use keyfold_core::template::Template;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lengths::{Coded, Known, Lengths};
use super::values::Record;

/// One in so many values judges; the others train.
const JUDGES: u64 = 4;
/// A codec that leaves more than this of the values' bytes is none.
const WORTH: f64 = 0.97;
/// Values that times are measured by, and how often: the quickest round counts.
const TIMED: usize = 400;
const ROUNDS: usize = 3;
/// Of all that are worth it so many are weighed with placements.
const MOST: usize = 3;

/// Runs the work, and says how many microseconds it took: a survey has no clock.
pub type Stopwatch<'s> = &'s mut dyn FnMut(&mut dyn FnMut()) -> f64;

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
    lengths: Lengths,
}

/// The codecs that make a family's values shorter, the best first and one of each kind; `keys` is how many the family
/// has.
pub fn weigh(template: &Template, records: &[Record], keys: u64, stopwatch: Stopwatch<'_>) -> Vec<Coding> {
    let judges = |record: &&Record| xxh3_64_with_seed(&record.key, 6).is_multiple_of(JUDGES);
    let (held_out, train): (Vec<&Record>, Vec<&Record>) = records.iter().partition(judges);
    if held_out.is_empty() || train.is_empty() {
        return Vec::new();
    }
    let to_train: Vec<Sample<'_>> = train.iter().map(|record| sample(template, record)).collect();
    let to_judge: Vec<Sample<'_>> = held_out.iter().map(|record| sample(template, record)).collect();
    let raw = codec::stored_bytes(None, &to_judge) as f64 / to_judge.len() as f64;
    let kinds = Kinds::default();
    let auto = CodecRule::named("auto");
    let mut best: Vec<Candidate> = Vec::new();
    for candidate in codec::candidates(&kinds, &auto, &to_train, &to_judge, keys) {
        let is_worth_it = candidate.bytes_a_value < raw * WORTH;
        if is_worth_it && best.len() < MOST && best.iter().all(|other| other.rule.name != candidate.rule.name) {
            best.push(candidate);
        }
    }
    let judged = Judged { template, train: &train, held_out: &held_out };
    best.into_iter().filter_map(|candidate| judged.coding(candidate, stopwatch)).collect()
}

fn sample<'r>(template: &'r Template, record: &'r Record) -> Sample<'r> {
    Sample { owner: Owner::new(template, &record.key), value: &record.value }
}

struct Judged<'r> {
    template: &'r Template,
    train: &'r [&'r Record],
    held_out: &'r [&'r Record],
}

impl Judged<'_> {
    fn coding(&self, candidate: Candidate, stopwatch: Stopwatch<'_>) -> Option<Coding> {
        let Candidate { rule, dictionary, .. } = candidate;
        let namespace = namespace(self.template, &rule, dictionary.as_deref())?;
        let known = |is_trained: bool| {
            let namespace = &namespace;
            move |record: &&Record| {
                Known::new(&record.key, record.value.len() as u64, stored(namespace, record), is_trained)
            }
        };
        let judged: Vec<Known> = self.held_out.iter().map(known(false)).collect();
        let count = judged.len() as f64;
        let sum = |len: fn(&Known) -> u64| judged.iter().map(len).sum::<u64>() as f64 / count;
        let (value_bytes, stored_bytes) = (sum(|one| one.raw_len), sum(|one| one.coded.len));
        let (encode_us, decode_us) = self.time(&namespace, stopwatch);
        let judged_by = judged.len();
        let trained = self.train.iter().map(known(true));
        let lengths = Lengths::new(judged.into_iter().chain(trained).collect());
        let packed_bytes = dictionary.as_deref().map_or(0, |dictionary| codec::pack(dictionary).len() as u64);
        Some(Coding {
            rule,
            dictionary,
            packed_bytes,
            value_bytes,
            stored_bytes,
            judged_by,
            encode_us,
            decode_us,
            lengths,
        })
    }

    /// Microseconds to encode and to decode a value.
    fn time(&self, namespace: &Namespace, stopwatch: Stopwatch<'_>) -> (f64, f64) {
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
        (encode_us, decode_us)
    }
}

/// What a value is stored as in a key of its own.
fn stored(namespace: &Namespace, record: &Record) -> Coded {
    let stored = namespace.encode_own(&record.key, &record.value);
    let by_codec = Frame::decode(&stored).is_ok_and(|frame| matches!(frame.body, Body::Coded { .. }));
    Coded { by_codec, len: stored.len() as u64 }
}

/// A namespace whose values are written by a codec; none where no layout takes the template.
fn namespace(template: &Template, rule: &CodecRule, dictionary: Option<&[u8]>) -> Option<Namespace> {
    let keys = toml::Value::from(template.source());
    let file = format!("[[namespace]]\nkeys = {keys}\nplacement = \"framed\"\ncodec = {rule}\n");
    let layout = Layout::parse_file(&file).ok()?.written_by(NamespaceIndex(0), rule, dictionary)?;
    layout.namespaces().first().cloned()
}

impl Coding {
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
        for (key, _) in sample.clone() {
            sampled += 1;
            trained += usize::from(self.lengths.is_trained(key));
        }
        let weight = self.lengths.trained_weight(trained, sampled, keys);
        sample.map(|(key, value)| self.lengths.of(key, value, weight)).collect()
    }
}
