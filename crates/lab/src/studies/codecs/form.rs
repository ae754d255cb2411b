//! The forms of a pair, and the codec that was trained for its values.

use anyhow::Context;
use keyfold_core::admin::DICTIONARIES_KEY;
use keyfold_core::codec::{Candidate, CodecRule, DictionaryId, Kinds, Owner, Sample, candidates, pack, stored_bytes};
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::memory::Model;
use keyfold_core::named;

use crate::data_sets::records::deflated;
use crate::physical::Physical;

/// The original's keys.
const TEMPLATE: &str = "set-allBooksBelongToUser:{id:int}";
/// Ids to a bucket, of which the model chooses.
const SPANS: [u64; 6] = [8, 16, 32, 63, 90, 126];
/// Pairs by which it does.
const CHOSEN_BY: usize = 2000;
/// Stored bytes of a value that a bucket takes where values are long, as `hash-max-listpack-value` is set for it.
pub(super) const LONG_VALUE: u64 = 4096;
/// The server's default.
pub(super) const SHORT_VALUE: u64 = 64;

/// A codec that leaves more than this of the values is not taken. The study asks how much can be saved at the most: so the
/// fewest bytes decide here, and not what a plan goes by, the time that they cost and what can be told from nothing.
const WORTH: f64 = 0.98;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

named! {
    /// A way to keep pairs.
    pub(super) enum Form {
        Plain = "plain",
        /// With a short name.
        Zipped = "key-zipped",
        Bucketed = "bucketed",
        /// Under its own name, deflated by itself where that is shorter: as client libraries do.
        Deflated = "zlib",
        /// Under its own name, by the trained codec.
        Coded = "codec",
        /// By the codec, with a short name.
        ZippedCoded = "zipped + codec",
        /// By the codec, in a bucket.
        All = "all",
    }
}

/// What was learned from other pairs.
pub(super) struct Trained {
    best: Option<Candidate>,
}

impl Form {
    pub(super) fn is_bucketed(self) -> bool {
        matches!(self, Self::Bucketed | Self::All)
    }

    fn is_coded(self) -> bool {
        matches!(self, Self::Coded | Self::ZippedCoded | Self::All)
    }

    /// All pairs in this form, with the dictionary where it needs one; in buckets of this span.
    pub(super) fn physical(self, pairs: &[Pair], span: u64, trained: &Trained) -> anyhow::Result<Physical> {
        let layout = self.layout(span, trained)?;
        let mut physical = Physical::default();
        for (key, value) in pairs {
            match self {
                Self::Plain => physical.string(key, value),
                Self::Deflated => physical.string(key, &deflated(value)),
                Self::Coded => {
                    let namespace = layout.namespaces().first().context("a layout without its namespace")?;
                    physical.string(key, &namespace.encode_own(key, value));
                }
                Self::Zipped | Self::Bucketed | Self::ZippedCoded | Self::All => physical.place(&layout, key, value),
            }
        }
        let dictionary = trained.best.as_ref().and_then(|best| best.dictionary.as_deref());
        if let Some(dictionary) = dictionary.filter(|_| self.is_coded()) {
            let id = DictionaryId::of(dictionary).to_string();
            physical.field(DICTIONARIES_KEY, id.as_bytes(), &pack(dictionary));
        }
        Ok(physical)
    }

    fn layout(self, span: u64, trained: &Trained) -> anyhow::Result<Layout> {
        let codec = trained.best.as_ref().filter(|_| self.is_coded());
        let mut text = format!("[[namespace]]\nkeys = \"{TEMPLATE}\"\nvalue_limit = {LONG_VALUE}\n");
        if self.is_bucketed() {
            text.push_str(&format!("bucket = {{ span = {span} }}\n"));
        }
        // With a codec, a key of its own holds frames.
        if let Some(best) = codec {
            text.push_str(&format!("codec = {}\n", best.rule));
        }
        let layout = Layout::parse_file(&text).context("the study's layout")?;
        match codec {
            Some(best) => {
                layout.written_by(NamespaceIndex(0), &best.rule, best.dictionary.as_deref()).context("no slot is free")
            }
            None => Ok(layout),
        }
    }

    /// The span of the fewest bytes, by the model; none where there are no buckets.
    pub(super) fn best_span(self, pairs: &[Pair], trained: &Trained, model: &Model) -> anyhow::Result<Option<u64>> {
        if !self.is_bucketed() {
            return Ok(None);
        }
        let pairs = &pairs[..pairs.len().min(CHOSEN_BY)];
        let mut best = (u64::MAX, SPANS[0]);
        for span in SPANS {
            let bytes = self.physical(pairs, span, trained)?.predict(model, 0).total_bytes();
            best = best.min((bytes, span));
        }
        Ok(Some(best.1))
    }
}

impl Trained {
    /// Learns from one part of these pairs, and chooses by the other; for so many pairs that are neither.
    pub(super) fn by(pairs: &[Pair], population: u64) -> anyhow::Result<Self> {
        let layout = Layout::parse_file(&format!("[[namespace]]\nkeys = \"{TEMPLATE}\"\n")).context("the layout")?;
        let templates = &layout.namespaces().first().context("a layout without its namespace")?.keys;
        let samples: Vec<_> =
            pairs.iter().map(|(key, value)| Sample { owner: Owner::new(templates, key), value }).collect();
        let (train, held_out) = samples.split_at(samples.len() * 3 / 4);
        let rule = CodecRule::named("auto");
        let best = candidates(&Kinds::default(), &rule, train, held_out, population).into_iter().next();
        let raw = stored_bytes(None, held_out) as f64 / held_out.len().max(1) as f64;
        Ok(Self { best: best.filter(|best| best.bytes_a_value < raw * WORTH) })
    }

    /// The codec, for people.
    pub(super) fn name(&self) -> String {
        match &self.best {
            Some(best) => match &best.dictionary {
                Some(dictionary) => format!("{}, {} B of dictionary", best.rule.name, dictionary.len()),
                None => best.rule.name.clone(),
            },
            None => "none".to_owned(),
        }
    }
}

/// The key of an id.
pub(super) fn key(id: u64) -> Vec<u8> {
    format!("set-allBooksBelongToUser:{id}").into_bytes()
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::{Allocator, Server};

    use super::super::values::ValueKind;
    use super::*;
    use keyfold_survey::random::Random;

    fn pairs(kind: ValueKind, ids: std::ops::Range<u64>) -> Vec<Pair> {
        let mut random = Random::new(ids.start);
        ids.map(|id| (key(id), kind.value(id, &mut random))).collect()
    }

    #[test]
    fn each_way_to_save_saves_and_all_together_the_most() {
        let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
        let limits = keyfold_core::memory::Limits { hash_value_bytes: LONG_VALUE, ..Default::default() };
        let model = model.with_limits(limits);
        let (seen, unseen) = (pairs(ValueKind::Books, 0..2000), pairs(ValueKind::Books, 100_000..108_000));
        let trained = Trained::by(&seen, 8000).unwrap();
        let bytes = |form: Form| {
            let span = form.best_span(&unseen, &trained, &model).unwrap();
            form.physical(&unseen, span.unwrap_or(1), &trained).unwrap().predict(&model, 0).total_bytes()
        };
        let [plain, zipped, bucketed, deflated, coded, zipped_coded, all] = Form::ALL.map(bytes);
        assert!(zipped < plain && bucketed < zipped && deflated < plain && coded < deflated);
        assert!(zipped_coded < coded && all < zipped_coded);
    }

    #[test]
    fn no_codec_touches_integers() {
        let trained = Trained::by(&pairs(ValueKind::Integers, 0..500), 500).unwrap();
        let unseen = pairs(ValueKind::Integers, 1000..1100);
        let model = Model::for_server(Server::redis(7, 0)).with_allocator(Allocator::SYSTEM);
        let bytes = |form: Form| form.physical(&unseen, 126, &trained).unwrap().predict(&model, 0).content_bytes();
        assert_eq!(trained.name(), "none");
        assert_eq!(bytes(Form::Bucketed), bytes(Form::All));
    }
}
