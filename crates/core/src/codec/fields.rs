//! *fields*: hashes without what they have in common: names of fields, values that come again and again; and tokens and addresses as
//! the bytes that they stand for ([`Vocabulary`]).
//!
//! A field can be changed without the others being decoded, so that a server's script does it ([`crate::exchange`]). A dictionary is
//! the vocabulary, as it is stored there.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Codec, CodecError, CodecKind, Options, Owner, Sample};
use crate::collection::{CollectionKind, MOST_NAMES, MOST_VALUES, Vocabulary, packed_fields, unlisted_len};

/// The longest value that is written so as a whole, in bytes. One whose fields are set one by one grows past it.
const MAX_LEN: usize = 64 * 1024;

/// Bytes of value for each byte of payload, at the most: a name takes one, a listed value two.
const MAX_RATIO: usize = LONGEST + 1;

/// A name that is there less often isn't learnt, nor is a value: it would be there by chance.
const FEWEST_NAMES: usize = 2;
const FEWEST_VALUES: usize = 8;

/// Nor is a value that fewer than one in so many hashes have: it costs more in the dictionary than it saves.
const RAREST_VALUE: usize = 1000;

/// Longer texts aren't learnt, nor values shorter than three bytes with their length.
const LONGEST: usize = 0xC0;
const SHORTEST_VALUE: usize = 3;

/// The kind.
#[derive(Debug)]
pub struct Fields;

impl CodecKind for Fields {
    fn name(&self) -> &'static str {
        "fields"
    }

    fn needs_training(&self) -> bool {
        true
    }

    fn is_for(&self, collection: Option<CollectionKind>) -> bool {
        collection == Some(CollectionKind::Hash)
    }

    fn open(&self, _options: &Options, dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        let list =
            dictionary.ok_or_else(|| CodecError::payload("it has no vocabulary; train one with `keyfold train`"))?;
        let vocabulary = Vocabulary::read(list);
        let damaged = |error| CodecError::payload(format!("its vocabulary is damaged: {error}"));
        Ok(Arc::new(FieldsCodec(vocabulary.map_err(damaged)?)))
    }

    /// The names that save the most, and those with the values that do; nothing from values that aren't all hashes.
    fn train(&self, samples: &[Sample<'_>], _options: &Options) -> Vec<Vec<u8>> {
        let [mut names, mut values] = [(); 2].map(|()| HashMap::<&[u8], usize>::new());
        for Sample { value, .. } in samples {
            let Some(fields) = packed_fields(value) else { return Vec::new() };
            for [name, value] in fields {
                *names.entry(name).or_default() += 1;
                *values.entry(value).or_default() += 1;
            }
        }
        values.retain(|value, count| {
            *count >= FEWEST_VALUES
                && *count * RAREST_VALUE >= samples.len()
                && value.len() >= SHORTEST_VALUE
                && usize::from(value[0]) < LONGEST
        });
        // An integer of one byte would take two if it weren't in the list.
        let names = best(names, MOST_NAMES, |name| (name.len() - 1).max(1));
        let values = best(values, MOST_VALUES, |value| unlisted_len(value).saturating_sub(2));
        let both = Vocabulary::of_packed(&names, &values);
        let names_alone = (!values.is_empty()).then(|| Vocabulary::of_packed(&names, &[]));
        names_alone.into_iter().chain([both]).filter(|stored| Vocabulary::read(stored).is_ok()).collect()
    }
}

/// The texts that save the most by what each saves, the most frequent first.
fn best(counts: HashMap<&[u8], usize>, most: usize, saves: impl Fn(&[u8]) -> usize) -> Vec<&[u8]> {
    let mut texts: Vec<(&[u8], usize)> = counts.into_iter().collect();
    texts.retain(|(text, count)| *count >= FEWEST_NAMES && text.len() <= LONGEST && saves(text) > 0);
    let all = |(text, count): &(&[u8], usize)| count * saves(text);
    texts.sort_by_cached_key(|text| (std::cmp::Reverse(all(text)), text.0));
    texts.truncate(most);
    texts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    texts.into_iter().map(|(text, _)| text).collect()
}

#[derive(Debug)]
struct FieldsCodec(Vocabulary);

impl Codec for FieldsCodec {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        self.0.shorten(value, out)
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0
            .restore(payload, self.max_decoded_len(payload.len()), out)
            .map_err(|error| CodecError::payload(error.to_string()))
    }

    fn max_len(&self) -> usize {
        MAX_LEN
    }

    fn max_decoded_len(&self, payload_len: usize) -> usize {
        MAX_LEN.max(payload_len.saturating_mul(MAX_RATIO))
    }

    fn vocabulary(&self) -> Option<&Vocabulary> {
        Some(&self.0)
    }
}
