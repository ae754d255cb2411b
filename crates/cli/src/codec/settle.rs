//! Which namespaces need a codec trained or chosen, and the layout that comes of it.

use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::codec::{CodecRule, Kinds};
use keyfold_core::layout::{Layout, Namespace, NamespaceIndex};
use keyfold_server::Nodes;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::pace::Pace;

use super::choice::{self, Choice};
use super::samples::{self, SamplesOfEach};

/// A layout with its codecs trained.
pub(crate) struct Settled {
    /// Its dictionaries must be in the server before it is in force.
    pub(crate) layout: Layout,
    pub(crate) choices: Vec<Choice>,
}

/// Whether a namespace's codec is of use only once it has been trained, or is better for it, and hasn't been.
pub(crate) fn needs_training(namespace: &Namespace) -> bool {
    let is_stored = !namespace.placement.is_plain();
    let untrained = namespace.codecs.written().is_none_or(|slot| slot.dictionary.is_none());
    let CodecRule { name, options } = &namespace.codec;
    let learns = if namespace.codec.is_auto() {
        namespace.codecs.written().is_none()
    } else {
        Kinds::default().find(name).is_some_and(|kind| kind.learns(options))
    };
    is_stored && learns && untrained
}

/// Trains the codecs of these namespaces by the server's values. `now` is the layout in force, `wanted` the one to
/// come; nothing is written.
pub(crate) fn settle(
    nodes: &mut Nodes,
    now: Option<&Layout>,
    wanted: &Layout,
    namespaces: &BTreeSet<NamespaceIndex>,
    force: bool,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Settled> {
    if namespaces.is_empty() {
        return Ok(Settled { layout: wanted.clone(), choices: Vec::new() });
    }
    let samples = samples::gather_of_all(nodes, now, wanted, namespaces, pace, interrupt)?;
    by_samples(now, wanted, samples, force)
}

/// The same by samples that were gathered.
pub(crate) fn by_samples(
    now: Option<&Layout>,
    wanted: &Layout,
    samples: SamplesOfEach,
    force: bool,
) -> anyhow::Result<Settled> {
    let mut settled = Settled { layout: wanted.clone(), choices: Vec::new() };
    let mut changed = BTreeMap::new();
    for (index, samples) in samples {
        let namespace = wanted.namespace(index);
        // No value is stored yet by what only `wanted` names. A namespace that moves has another id there.
        let same = |known: &&Namespace| known.keys.same_shape(&namespace.keys);
        let known = now.and_then(|now| now.namespaces().iter().find(same));
        let in_force = known.filter(|known| known.placement.holds_frames());
        let written = in_force.and_then(|known| known.codecs.written()).map(|slot| slot.rule.name.as_str());
        let is_other = written.is_some_and(|name| name != namespace.codec.name) && !namespace.codec.is_auto();
        let choice = choice::choose(namespace, in_force, samples, force || is_other);
        if let Some(candidate) = choice.taken() {
            let mut codecs = known.map(|known| known.codecs.clone()).unwrap_or_default();
            anyhow::ensure!(
                codecs.write_trained(&candidate.rule, candidate.dictionary.as_deref()).is_some(),
                "{} has had 255 codecs, each of which has a number that values name it by; free old ones with `keyfold recode`",
                namespace.keys
            );
            changed.insert(index, codecs);
        }
        settled.choices.push(choice);
    }
    settled.layout = wanted.with_codecs(changed);
    Ok(settled)
}
