//! Layouts whose codecs have been trained, without a server: by records that are at hand.

use keyfold_core::admin::{DICTIONARIES_KEY, LAYOUT_KEY};
use keyfold_core::codec::{self, DictionaryId, Kinds, Owner, Sample};
use keyfold_core::layout::{Layout, Namespace};

use crate::wire::{Wire, WireError};

/// A key and its value.
pub type Pair<'r> = (&'r [u8], &'r [u8]);

/// Gives each namespace that names a codec the best that comes of it: trained by some records, chosen by others, for so
/// many keys. One that nothing can be learnt for stays as it is.
pub fn train(layout: &Layout, learn: &[Pair<'_>], judge: &[Pair<'_>], population: u64) -> Layout {
    let mut trained = layout.clone();
    for (index, namespace) in layout.iter().filter(|(_, namespace)| !namespace.codec.is_none()) {
        let [learn, judge] = [learn, judge].map(|pairs| samples(namespace, pairs));
        let kinds = Kinds::default().for_values_of(namespace.collection());
        let best = codec::candidates(&kinds, &namespace.codec, &learn, &judge, population).into_iter().next();
        let written = best.and_then(|best| trained.written_by(index, &best.rule, best.dictionary.as_deref()));
        trained = written.unwrap_or(trained);
    }
    trained
}

/// The records that are of this namespace, as codecs take them.
pub fn samples<'r>(namespace: &'r Namespace, pairs: &[Pair<'r>]) -> Vec<Sample<'r>> {
    let is_own = |(key, _): &&Pair<'r>| namespace.keys.iter().any(|template| template.texts(key).is_some());
    let sample = |(key, value): &Pair<'r>| Sample { owner: Owner::new(&namespace.keys, key), value };
    pairs.iter().filter(is_own).map(sample).collect()
}

/// Another layout of the same namespaces, placed otherwise, with the codecs of a trained one.
#[must_use]
pub fn over(trained: &Layout, layout: &Layout) -> Layout {
    let codecs = trained.iter().map(|(index, namespace)| (index, namespace.codecs.clone()));
    layout.with_codecs(codecs.collect())
}

/// The commands that put a layout's dictionaries and then the layout where proxies and tools look for them.
pub fn commands(layout: &Layout) -> Vec<Vec<Vec<u8>>> {
    let dictionary = |(id, dictionary): (DictionaryId, &[u8])| {
        vec![b"HSET".to_vec(), DICTIONARIES_KEY.to_vec(), id.to_string().into_bytes(), codec::pack(dictionary)]
    };
    let stored = vec![b"SET".to_vec(), LAYOUT_KEY.to_vec(), layout.to_stored().into_bytes()];
    layout.open_dictionaries().into_iter().map(dictionary).chain([stored]).collect()
}

/// Does what [`commands`] says.
///
/// # Errors
/// Where the connection fails.
pub fn store(layout: &Layout, wire: &mut Wire) -> Result<(), WireError> {
    for command in commands(layout) {
        wire.call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    }
    Ok(())
}
