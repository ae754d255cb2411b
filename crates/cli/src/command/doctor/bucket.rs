//! One hash, field by field; where it is a bucket of keyfold's, also what its stored values say.

use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_survey::diagnosis::{Contents, Example, Leftovers, Models};

/// A value is expired for longer than a sweep takes to come round, in milliseconds.
const GRACE_MS: i64 = 60 * 60 * 1000;
/// What a field and its value take in a listpack beyond their bytes.
const LISTPACK_BYTES: u64 = 4;

/// A bucket's namespace, and the layout that says so.
#[derive(Clone, Copy)]
pub(super) struct Folded<'l> {
    pub(super) layout: &'l Layout,
    pub(super) namespace: NamespaceIndex,
}

/// A hash while it is read.
pub(super) struct Reading<'k> {
    pub(super) database: u32,
    pub(super) key: &'k [u8],
    pub(super) contents: Contents,
}

impl<'k> Reading<'k> {
    pub(super) fn new(database: u32, key: &'k [u8]) -> Self {
        Self { database, key, contents: Contents::default() }
    }

    /// Takes a step of HSCAN: fields and values by turns.
    pub(super) fn take(
        &mut self,
        items: &[Vec<u8>],
        models: &Models,
        folded: Option<Folded<'_>>,
        leftovers: &mut Leftovers,
    ) {
        for pair in items.chunks_exact(2) {
            let (field, stored) = (&pair[0], &pair[1]);
            self.contents.add(models, field, stored);
            if let Some(folded) = folded {
                self.look_at_stored(field, stored, folded, leftovers);
            }
        }
    }

    fn look_at_stored(&self, field: &[u8], stored: &[u8], folded: Folded<'_>, leftovers: &mut Leftovers) {
        let bytes = (field.len() + stored.len()) as u64 + LISTPACK_BYTES;
        let example = || Example::new(self.database, self.key, bytes).with_field(field);
        match Frame::decode(stored) {
            Err(_) => leftovers.damaged.add(example()),
            Ok(frame) if !folded.layout.namespace(folded.namespace).knows_slot_of(&frame) => {
                leftovers.damaged.add(example());
            }
            Ok(frame) if frame.expired(leftovers.now_ms - GRACE_MS) => {
                leftovers.expired.add(example());
                let since = leftovers.expired_since_ms.into_iter().chain(frame.expires_at_ms).min();
                leftovers.expired_since_ms = since;
            }
            Ok(_) if folded.layout.key_of(folded.namespace, self.key, field).is_none() => {
                leftovers.strays.add(example());
            }
            Ok(_) => {}
        }
    }
}
