//! Layouts whose codecs have been trained, without a server: by records that are at hand.

use std::collections::BTreeMap;

use keyfold_core::admin::{DICTIONARIES_KEY, LAYOUT_KEY};
use keyfold_core::codec::{self, Candidate, DictionaryId, Kinds, Owner, Sample};
use keyfold_core::layout::{Layout, Namespace, NamespaceIndex};

use crate::wire::{Wire, WireError};

/// A key and its value.
pub type Pair<'r> = (&'r [u8], &'r [u8]);

/// A layout, and the dictionaries that it names.
#[derive(Clone, Debug)]
pub struct Trained {
    /// With its codecs open.
    pub layout: Layout,
    /// By their names.
    pub dictionaries: BTreeMap<DictionaryId, Vec<u8>>,
}

/// Gives each namespace that names a codec the best that comes of it: trained by some records, chosen by others, for so
/// many keys. One that nothing can be learnt for stays as it is.
pub fn train(layout: &Layout, learn: &[Pair<'_>], judge: &[Pair<'_>], population: u64) -> Trained {
    let mut trained = Trained { layout: layout.clone(), dictionaries: BTreeMap::new() };
    for (index, namespace) in layout.iter().filter(|(_, namespace)| !namespace.codec.is_none()) {
        let [learn, judge] = [learn, judge].map(|pairs| samples(namespace, pairs));
        let best =
            codec::candidates(&Kinds::default(), &namespace.codec, &learn, &judge, population).into_iter().next();
        if let Some(best) = best {
            trained.write_by(index, best);
        }
    }
    trained.layout.open(&Kinds::default(), &trained.dictionaries);
    trained
}

/// The records that are of this namespace, as codecs take them.
pub fn samples<'r>(namespace: &'r Namespace, pairs: &[Pair<'r>]) -> Vec<Sample<'r>> {
    let is_own = |(key, _): &&Pair<'r>| namespace.template.texts(key).is_some();
    let sample = |(key, value): &Pair<'r>| Sample { owner: Owner::new(&namespace.template, key), value };
    pairs.iter().filter(is_own).map(sample).collect()
}

impl Trained {
    fn write_by(&mut self, index: NamespaceIndex, best: Candidate) {
        let dictionary = best.dictionary.as_deref().map(DictionaryId::of);
        let mut codecs = self.layout.namespace(index).codecs.clone();
        codecs.write_by(&best.rule, dictionary);
        self.layout = self.layout.with_codecs([(index, codecs)].into());
        self.dictionaries.extend(dictionary.zip(best.dictionary));
    }

    /// Another layout of the same namespaces, placed otherwise, with these codecs.
    #[must_use]
    pub fn over(&self, layout: &Layout) -> Layout {
        let codecs = self.layout.iter().map(|(index, namespace)| (index, namespace.codecs.clone()));
        layout.with_codecs(codecs.collect())
    }

    /// The commands that do what [`Self::store`] does.
    pub fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        let dictionary = |(id, dictionary): (&DictionaryId, &Vec<u8>)| {
            vec![b"HSET".to_vec(), DICTIONARIES_KEY.to_vec(), id.to_string().into_bytes(), codec::pack(dictionary)]
        };
        let layout = vec![b"SET".to_vec(), LAYOUT_KEY.to_vec(), self.layout.to_stored().into_bytes()];
        self.dictionaries.iter().map(dictionary).chain([layout]).collect()
    }

    /// Puts the dictionaries and then the layout where proxies and tools look for them.
    ///
    /// # Errors
    /// Where the connection fails.
    pub fn store(&self, wire: &mut Wire) -> Result<(), WireError> {
        for command in self.commands() {
            wire.call(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
