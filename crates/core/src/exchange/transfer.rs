//! Values that were left unread, given to the keys that hold them now without their bytes coming here.
//!
//! EXPIRE and PERSIST write the pointer anew. RENAME and COPY of a large spilled value are the server's own RENAME
//! and COPY of the key in which it lies, under a nonce that was never used. Of a set or hash in parts RENAME writes the header
//! elsewhere, and whose the parts are; for COPY its members are needed. Where a value has to be stored otherwise
//! (a codec, whose payload belongs to its key; a key of its own whose values are frames) its bytes are needed.

use std::collections::BTreeMap;

use crate::exchange::key::Key;
use crate::exchange::retire::retire;
use crate::exchange::script::CompareAndSet;
use crate::exchange::{Env, failure};
use crate::frame;
use crate::layout::{Place, spill_name};
use crate::placement::name::PartName;
use crate::record::{NOBODY, part_name};
use crate::string::{Held, Space, Unread, WhyUnread};

/// Keys as they were read, by their names: a command may have a million.
pub(crate) type ByName<'k> = BTreeMap<&'k [u8], &'k Key>;

/// The keys of a load by their names.
pub(crate) fn by_name(keys: &[Key]) -> ByName<'_> {
    keys.iter().map(|key| (key.logical.as_slice(), key)).collect()
}

/// How an unread value comes to where it is held now.
pub(crate) enum Transfer<'k> {
    /// It stays, and its pointer, or its frame, is written as this.
    Restamp { place: &'k Place, stored: Vec<u8> },
    /// It stays in a key of its own, whose expiry is set.
    Expire,
    /// The spilled value of this name goes into a bucket's spill, by the codec in `slot`.
    Spill { from: Vec<u8>, to: &'k Place, slot: Option<u8> },
    /// The spilled value of this name becomes a key of its own.
    Own { from: Vec<u8> },
    /// The parts stay where they are, and a bucket's field points to them by this; the key of this name says whose they are.
    Parts { to: &'k Place, stored: Vec<u8>, owner: Vec<u8> },
}

/// How the server can bring the unread value to `key`, which holds it now; none where its bytes are needed for that.
pub(crate) fn of<'k>(keys: &ByName<'k>, space: &Space, key: &'k Key, unread: &Unread) -> Option<Transfer<'k>> {
    let here = key.spots().first()?;
    let origin = *keys.get(unread.origin.as_slice())?;
    let source = origin.spots().iter().find(|spot| spot.is_stored())?;
    let stays = origin.logical == key.logical && std::ptr::eq(source, here);
    if origin.logical == key.logical && lies_in_former_parts(key) {
        let stored = source.stored_with_expiry(unread.expires_at_ms)?;
        return Some(Transfer::Restamp { place: source.bucket()?, stored });
    }
    if stays {
        return match here.bucket() {
            Some(place) => Some(Transfer::Restamp { place, stored: here.stored_with_expiry(unread.expires_at_ms)? }),
            None => Some(Transfer::Expire),
        };
    }
    if let Some(nonce) = source.parts() {
        let (from, to) = (source.place.as_ref()?, here.bucket()?);
        // The names of parts say beside what buckets they lie.
        let is_of_a_kind =
            from.origin == to.origin && from.kind.collection() == to.kind.collection() && key.logical != NOBODY;
        let stored = source.stored_with_expiry(unread.expires_at_ms)?;
        let owner = part_name(to.origin, nonce, PartName::Owner);
        return (is_of_a_kind && !is_kept(space, &unread.origin)).then_some(Transfer::Parts { to, stored, owner });
    }
    let (nonce, slot) = source.large_spill()?;
    let from = spill_name(source.place.as_ref()?.origin, nonce, &origin.logical);
    let is_readable_there = slot.is_none() || origin.logical == key.logical;
    match &here.place {
        Some(to) if to.kind.is_bucket() => is_readable_there.then_some(Transfer::Spill { from, to, slot }),
        to => (slot.is_none() && to.as_ref().is_none_or(|to| to.kind.is_raw())).then_some(Transfer::Own { from }),
    }
}

/// Whether a key lies in parts where it is being moved away from, and nowhere else: the mover brings it away, in steps.
pub(crate) fn lies_in_former_parts(key: &Key) -> bool {
    let mut stored = key.spots().iter().enumerate().filter(|(_, spot)| spot.is_stored());
    matches!((stored.next(), stored.next()), (Some((1.., spot)), None) if spot.unread_header().is_some())
}

/// Adds what brings every unread value to the keys that hold it now.
///
/// # Errors
/// The error of a value that can't be decoded and would have to be, or whose bytes are needed.
pub(crate) fn plan_all(
    env: &mut Env<'_>,
    writes: &mut CompareAndSet,
    keys: &ByName<'_>,
    space: &Space,
) -> Result<(), String> {
    let mut holders = BTreeMap::<&[u8], usize>::new();
    for (_, unread) in changed(space) {
        *holders.entry(&unread.origin).or_default() += 1;
    }
    for (logical, unread) in changed(space) {
        let Some(key) = keys.get(logical) else { continue };
        let Some(transfer) = of(keys, space, key, unread) else {
            return Err(match &unread.why {
                WhyUnread::Undecodable(error) => error.clone(),
                WhyUnread::Large => failure(logical, "its value was not read"),
            });
        };
        let origin = unread.origin.as_slice();
        plan(env, writes, key, unread, &transfer, stays(space, origin) || holders[origin] > 1);
    }
    Ok(())
}

/// Whether a key holds what it did.
fn stays(space: &Space, origin: &[u8]) -> bool {
    matches!(space.held(origin), Held::Unread(unread) if unread.origin == origin)
}

/// Whether what a key held is held by more than one now.
fn is_kept(space: &Space, origin: &[u8]) -> bool {
    stays(space, origin) || changed(space).filter(|(_, unread)| unread.origin == origin).count() > 1
}

/// The keys that hold another value now, or another expiry, which was left unread.
fn changed(space: &Space) -> impl Iterator<Item = (&[u8], &Unread)> {
    space.changes().filter_map(|(logical, held)| match held {
        Held::Unread(unread) => Some((logical, unread)),
        _ => None,
    })
}

fn plan(
    env: &mut Env<'_>,
    writes: &mut CompareAndSet,
    key: &Key,
    unread: &Unread,
    transfer: &Transfer<'_>,
    is_kept: bool,
) {
    match transfer {
        Transfer::Restamp { place, stored } => {
            env.note_expiry(place, unread.expires_at_ms);
            writes.write(&[b"HSET", &place.physical, &place.field, stored]);
        }
        Transfer::Expire => set_expiry(writes, key.physical(), unread.expires_at_ms),
        Transfer::Spill { from, to, slot } => {
            let nonce = (env.nonces)();
            let name = spill_name(to.origin, nonce, &key.logical);
            env.stats.namespace(to.namespace).count_spill();
            env.note_expiry(to, unread.expires_at_ms);
            let mut pointer = Vec::new();
            frame::encode_spill(nonce, *slot, unread.expires_at_ms, &mut pointer);
            retire_others(writes, key, env);
            take(writes, from, &name, is_kept);
            set_expiry(writes, &name, None);
            writes.write(&[b"HSET", &to.physical, &to.field, &pointer]);
        }
        Transfer::Parts { to, stored, owner } => {
            env.note_expiry(to, unread.expires_at_ms);
            retire_others(writes, key, env);
            // In one step: the sweep takes parts for nobody's where this names a key that doesn't point to them.
            writes.write(&[b"SET", owner, &key.logical]);
            writes.write(&[b"HSET", &to.physical, &to.field, stored]);
        }
        Transfer::Own { from } => {
            take(writes, from, key.physical(), is_kept);
            set_expiry(writes, key.physical(), unread.expires_at_ms);
        }
    }
}

/// Retires what the key's own field pointed to before.
fn retire_others(writes: &mut CompareAndSet, key: &Key, env: &Env<'_>) {
    if let Some(here) = key.spots().first() {
        retire(writes, key, here, env);
    }
}

/// Has the server give a value another name, or a copy of it where it is kept. It must be there.
fn take(writes: &mut CompareAndSet, from: &[u8], to: &[u8], is_kept: bool) {
    writes.check(&[b"EXISTS", from], Some(b"1"));
    writes.name_key(to);
    match is_kept {
        true => writes.write(&[b"COPY", from, to, b"REPLACE"]),
        false => writes.write(&[b"RENAME", from, to]),
    }
}

/// Sets or removes the expiry of a name that a value was moved to: it may have the old name's, or one from before.
fn set_expiry(writes: &mut CompareAndSet, name: &[u8], expires_at_ms: Option<i64>) {
    match expires_at_ms {
        Some(at) => writes.write(&[b"PEXPIREAT", name, at.to_string().as_bytes()]),
        None => writes.write(&[b"PERSIST", name]),
    }
}
