//! *fields*: hashes without the names of fields that nearly all of them have ([`FieldNames`]).
//!
//! It makes them less short than zstd does; but a field can be changed without the others being decoded, so that a server's script
//! does it ([`crate::exchange`]). A dictionary is the list of names, as it is stored there.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Codec, CodecError, CodecKind, Options, Owner, Sample};
use crate::collection::{CollectionKind, FieldNames, MOST_FIELD_NAMES, packed_names};

/// The longest value, in bytes.
const MAX_LEN: usize = 64 * 1024;

/// A name that fewer hashes have isn't learnt: it would be another's by chance.
const FEWEST: usize = 2;

/// Longer names are no names.
const LONGEST_NAME: usize = 255;

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
        let list = dictionary.ok_or_else(|| CodecError::payload("it has no names; train them with `keyfold train`"))?;
        let names = FieldNames::read(list);
        let names = names.map_err(|error| CodecError::payload(format!("the list of names is damaged: {error}")))?;
        Ok(Arc::new(FieldsCodec(names)))
    }

    /// The names that save the most, the most frequent first; nothing from values that aren't all hashes.
    fn train(&self, samples: &[Sample<'_>], _options: &Options) -> Vec<Vec<u8>> {
        let mut counts: HashMap<&[u8], usize> = HashMap::new();
        for Sample { value, .. } in samples {
            let Some(names) = packed_names(value) else { return Vec::new() };
            names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
        }
        let mut names: Vec<(&[u8], usize)> = counts.into_iter().collect();
        names.retain(|(name, count)| *count >= FEWEST && name.len() <= LONGEST_NAME);
        // An integer of one byte would take two if it weren't in the list.
        let saves = |(name, count): &(&[u8], usize)| count * (name.len() - 1).max(1);
        names.sort_unstable_by(|one, other| saves(other).cmp(&saves(one)).then(one.0.cmp(other.0)));
        names.truncate(MOST_FIELD_NAMES);
        names.sort_by(|one, other| other.1.cmp(&one.1));
        let list: Vec<u8> = names.into_iter().flat_map(|(name, _)| name).copied().collect();
        if FieldNames::read(&list).is_ok() { vec![list] } else { Vec::new() }
    }
}

#[derive(Debug)]
struct FieldsCodec(FieldNames);

impl Codec for FieldsCodec {
    fn encode(&self, value: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        self.0.shorten(value, out)
    }

    fn decode(&self, payload: &[u8], _owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.restore(payload, MAX_LEN, out).map_err(|error| CodecError::payload(error.to_string()))
    }

    fn max_len(&self) -> usize {
        MAX_LEN
    }

    fn field_names(&self) -> Option<&FieldNames> {
        Some(&self.0)
    }
}
