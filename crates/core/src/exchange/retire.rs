//! Spilled values, and parts, that nothing points to any more.

use crate::exchange::Env;
use crate::exchange::key::{Key, Spot};
use crate::exchange::script::CompareAndSet;
use crate::frame::{Body, Frame};
use crate::layout::{Evict, NamespaceIndex, Place, spill_name};
use crate::placement::name::{Origin, PartName};
use crate::record::part_name;

/// How long a spilled value that nothing points to any more is still readable, for a reader that was told
/// of it just before; after that the server removes it.
pub const RETIRE_MS: &[u8] = b"5000";

/// Whether a key of which PTTL says this is gone, or goes by itself as a retired one does, whatever pointed to it.
pub fn goes_at_once(left_ms: i64) -> bool {
    let retire_ms = str::from_utf8(RETIRE_MS).ok().and_then(|digits| digits.parse().ok());
    left_ms == -2 || (left_ms >= 0 && retire_ms.is_some_and(|most| left_ms <= most))
}

/// Whether a spilled value of this namespace that isn't there is taken for evicted, and not read once more: its client has
/// sent something behind, which may have written the key anew by now. What is replaced stays readable for a while
/// ([`RETIRE_MS`]), so that at worst another client's write in place is missed.
pub(super) fn may_have_been_evicted(namespace: NamespaceIndex, env: &Env<'_>) -> bool {
    let leaves = env.layout.namespace(namespace).evictable.which != Evict::Never;
    env.is_followed && env.cache.is_some() && leaves
}

/// The command that retires the spilled value with this nonce.
pub(super) fn spill_retirement(place: &Place, nonce: u64, key: &[u8], send: impl FnOnce(&[&[u8]])) {
    send(&[b"PEXPIRE", &spill_name(place.origin, nonce, key), RETIRE_MS]);
}

/// Retires what a spot's stored value points to: the spilled value, where it does, and parts, which the sweep is told of.
pub(super) fn retire(writes: &mut CompareAndSet, key: &Key, spot: &Spot, env: &Env<'_>) {
    let (Some(place), Some(frame)) = (spot.bucket(), spot.frame()) else { return };
    match frame.body {
        Body::Spill { nonce, .. } => {
            spill_retirement(place, nonce, &key.logical, |command| writes.write(command));
        }
        _ => abandon(place.origin, &frame, env),
    }
}

/// Tells the sweep of the parts that a field of a bucket of this origin points to by this frame, if it does: it is about to point to
/// something else.
pub(crate) fn abandon(origin: Origin, frame: &Frame<'_>, env: &Env<'_>) {
    if let Body::Parts { nonce, .. } = frame.body {
        env.stats.sweep().abandoned.note(part_name(origin, nonce, PartName::Owner));
    }
}
