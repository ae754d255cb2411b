//! Writes what a command changed to where the keys lie: raw, framed, spilled, or as keys of their own.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::codec::{Effort, Stored};
use crate::collection::CollectionKind;
use crate::collection::parts::Header;
use crate::exchange::key::{Key, Spot};
use crate::exchange::retire::retire;
use crate::exchange::script::CompareAndSet;
use crate::exchange::{Env, failure, native_collection, transfer};
use crate::layout::Place;
use crate::notify::{Event, Notices};
use crate::record::{Manner, PhysicalWrites, SetsAs};
use crate::string::{Collected, Entry, Held, Space, Unread, WhyUnread};

/// A server before 7.0 takes so many words of a command, and closes the connection, which others share, over one that has more.
const MOST_WORDS_BEFORE_7: usize = 1 << 20;

/// What a server is to hold for a key in this place, counted, and noted for the sweep where it will expire.
pub(crate) fn encode<'r>(
    env: &mut Env<'_>,
    place: Option<&'r Place>,
    key: &'r [u8],
    value: &'r [u8],
    expires_at_ms: Option<i64>,
) -> PhysicalWrites<'r> {
    encode_in_place_of(None, env, place, key, value, expires_at_ms)
}

/// The same where it comes in place of a collection in parts with this header.
fn encode_in_place_of<'r>(
    before: Option<Header>,
    env: &mut Env<'_>,
    place: Option<&'r Place>,
    key: &'r [u8],
    value: &'r [u8],
    expires_at_ms: Option<i64>,
) -> PhysicalWrites<'r> {
    let coded = place.filter(|place| env.layout.namespace(place.namespace).codecs.written().is_some());
    let ahead = coded.and_then(|place| env.encoded.as_deref()?.find(env.layout, place.namespace, key, value));
    let effort = match (ahead, coded) {
        (Some(payload), _) => Effort::Spent(payload),
        (None, Some(_)) => env.stats.encoding().effort(env.now_ms, value.len()),
        (None, None) => Effort::Full,
    };
    let writes = env.layout.physical_writes_by(
        Manner { effort, sets: SetsAs::of(env.dialect()), before },
        place,
        key,
        value,
        expires_at_ms,
        &mut *env.nonces,
    );
    if let Some(place) = place.filter(|place| !place.kind.is_raw()) {
        let stats = env.stats.namespace(place.namespace);
        stats.count_encoded(value.len(), writes.value_len());
        if writes.is_spilled() && !writes.is_in_parts() {
            stats.count_spill();
        }
        if place.kind.is_field() {
            env.note_expiry(place, expires_at_ms);
        }
    }
    writes
}

/// The bytes that a string or a collection is stored as, before its namespace's codec, and when it expires.
pub(crate) fn value_of(held: &Held) -> Option<(Cow<'_, [u8]>, Option<i64>)> {
    match held {
        Held::String(entry) => Some((Cow::Borrowed(&entry.value), entry.expires_at_ms)),
        Held::Collection(held) => {
            let (packed, expires_at_ms) = held.collection.stored(held.expires_at_ms);
            Some((Cow::Owned(packed), expires_at_ms))
        }
        Held::Nothing | Held::Unread(_) | Held::Other(_) => None,
    }
}

/// Adds what a server is to hold for a key.
pub(crate) fn add_writes(writes: &mut CompareAndSet, record: &PhysicalWrites<'_>) {
    record.iter().for_each(|write| write.command(|args| writes.write(args)));
}

/// Whether a change can't be written before values that were left unread are read whole: it brings one to where it
/// has to be stored otherwise than it lies.
pub(crate) fn needs_all_bytes(keys: &[Key], space: &Space) -> bool {
    let is_large = |held: &Held| matches!(held, Held::Unread(Unread { why: WhyUnread::Large, .. }));
    if !space.changes().any(|(_, held)| is_large(held)) {
        return false;
    }
    let by_name = transfer::by_name(keys);
    space.changes().any(|(logical, held)| {
        let Held::Unread(unread @ Unread { why: WhyUnread::Large, .. }) = held else { return false };
        by_name.get(logical).is_none_or(|key| transfer::of(&by_name, space, key, unread).is_none())
    })
}

/// Everything that the space's changes come to, with the checks that no key it was worked out from has
/// changed meanwhile; and what is published of them.
///
/// # Errors
/// The error reply, where a list, hash or another type would come to lie under a folded key.
pub(crate) fn plan_writes(
    env: &mut Env<'_>,
    keys: &[Key],
    space: &Space,
    notices: Option<Notices>,
) -> Result<CompareAndSet, String> {
    let mut writes = CompareAndSet::default();
    let by_name = transfer::by_name(keys);
    // What leaves its key for one other is renamed; this comes first, before the key's own changes retire it.
    transfer::plan_all(env, &mut writes, &by_name, space)?;
    for (logical, held) in space.changes() {
        let Some(key) = by_name.get(logical) else {
            return Err(failure(logical, "it was written without being read"));
        };
        match held {
            Held::Unread(unread) if unread.origin == *logical && transfer::lies_in_former_parts(key) => {}
            Held::Unread(_) => plan_removals(&mut writes, key, &key.spots()[1..], env),
            Held::String(entry) if let Some((place, stored)) = with_another_expiry(key, entry) => {
                env.note_expiry(place, entry.expires_at_ms);
                writes.write(&[b"HSET", &place.physical, &place.field, &stored]);
                plan_removals(&mut writes, key, &key.spots()[1..], env);
            }
            held => plan_write(env, &mut writes, key, held)?,
        }
    }
    // A transaction may leave a key as it was, and has done something to it all the same.
    if let Some(notices) = notices {
        publish(&mut writes, &by_name, space, notices);
    }
    if !writes.is_empty() {
        check_all(&mut writes, keys, space.now_ms());
    }
    match keys.first() {
        Some(key) if env.server.major() < 7 && writes.words() > MOST_WORDS_BEFORE_7 - 8 => {
            Err(failure(&key.logical, "what is to be written for it has more words than a server takes at once"))
        }
        _ => Ok(writes),
    }
}

/// Adds what is published of folded keys: before all else of a key that what it held had expired, and last that what it was
/// given has. Of a plain key the server tells itself, unless it goes from where it lay under another name.
fn publish(writes: &mut CompareAndSet, by_name: &transfer::ByName<'_>, space: &Space, notices: Notices) {
    let mut begun = BTreeSet::new();
    let gone: BTreeSet<&[u8]> =
        space.changes().filter(|(_, held)| matches!(held, Held::Nothing)).map(|(logical, _)| logical).collect();
    let folded = |logical: &[u8]| {
        let is_told = |key: &&&Key| key.is_told_by_keyfold() || gone.contains(logical) && key.is_under_another_name();
        by_name.get(logical).filter(is_told)
    };
    for (logical, event) in space.events() {
        let Some(key) = folded(logical) else { continue };
        if begun.insert(logical) && key.field_expires_at_ms().is_some_and(|at| at < space.now_ms()) {
            writes.publish(notices, logical, Event::Expired);
        }
        writes.publish(notices, logical, event);
    }
    for logical in space.written_expired().filter(|logical| folded(logical).is_some()) {
        writes.publish(notices, logical, Event::Expired);
    }
}

/// Adds the checks that the keys still hold what was read at this time.
pub(crate) fn check_all(writes: &mut CompareAndSet, keys: &[Key], now_ms: i64) {
    for key in keys {
        key.check(writes);
        // A value that expires meanwhile is gone for everybody: it must not be given more time, nor an answer. One that
        // was taken for expired must be that by the server's clock too.
        match key.field_expires_at_ms() {
            Some(at) if at >= now_ms => writes.check_time(at),
            Some(at) => writes.check_time_past(at),
            None => {}
        }
        let (past, to_come): (Vec<i64>, Vec<i64>) = key.member_expiries().partition(|at| *at < now_ms);
        past.into_iter().max().into_iter().for_each(|at| writes.check_time_past(at));
        to_come.into_iter().min().into_iter().for_each(|at| writes.check_time(at));
    }
}

/// Gives a key what it holds now: in the first of its spots, and nothing of it stays in another.
///
/// # Errors
/// The error reply, where another type would come to lie under a folded key.
pub(crate) fn plan_write(env: &mut Env<'_>, writes: &mut CompareAndSet, key: &Key, held: &Held) -> Result<(), String> {
    let (here, elsewhere) = key.spots().split_first().ok_or_else(|| failure(&key.logical, "it has no place"))?;
    match held {
        Held::Nothing => plan_removal(writes, key, here, env),
        Held::Unread(_) => return Err(failure(&key.logical, "its value was not read")),
        Held::String(Entry { value, expires_at_ms }) => {
            if let Some(place) = here.place.as_ref().filter(|place| !place.kind.is_string()) {
                return Err(other_type(env, place, &key.logical, b"string"));
            }
            add_writes(writes, &encode(env, here.place.as_ref(), &key.logical, value, *expires_at_ms));
            // Last: a server out of memory lets a script go on that has written anything, as a new expiry is.
            retire(writes, key, here, env);
        }
        Held::Collection(Collected { collection, expires_at_ms }) => match &here.place {
            None => native_collection::write(writes, &key.logical, collection, *expires_at_ms, env)?,
            Some(place) if place.kind.collection() == Some(collection.kind()) => {
                let (packed, expires_at_ms) = collection.stored(*expires_at_ms);
                let before = key.spots().iter().find_map(Spot::header);
                let record = encode_in_place_of(before, env, Some(place), &key.logical, &packed, expires_at_ms);
                add_writes(writes, &record);
                retire(writes, key, here, env);
            }
            Some(place) => {
                return Err(other_type(env, place, &key.logical, collection.kind().name().as_bytes()));
            }
        },
        Held::Other(kind) => {
            let Some(place) = key.place() else {
                let kind = kind.escape_ascii();
                return Err(failure(&key.logical, &format!("a {kind} can't be written together with folded keys")));
            };
            return Err(other_type(env, place, &key.logical, kind));
        }
    }
    plan_removals(writes, key, elsewhere, env);
    Ok(())
}

/// Whether a set or hash comes into its bucket as a whole.
pub(crate) fn is_packed(env: &Env<'_>, key: &Key, held: &Collected) -> bool {
    let Some(place) = key.spots().first().and_then(|here| here.place.as_ref()) else { return false };
    let (packed, expires_at_ms) = held.collection.stored(held.expires_at_ms);
    let stored = env.layout.namespace(place.namespace).encode(&key.logical, &packed, expires_at_ms);
    matches!(stored, Stored::InPlace(_))
}

/// The place and the stored value of a key whose spilled value stays as it is, and nothing but its expiry changes; none
/// otherwise. A mover writes such a value again all the same: another codec may be in force than the one that wrote it.
fn with_another_expiry<'k>(key: &'k Key, entry: &Entry) -> Option<(&'k Place, Vec<u8>)> {
    let here = key.spots().first().filter(|here| here.spill().is_some())?;
    let is_unchanged = matches!(key.held(), Ok(Held::String(old)) if old.value == entry.value);
    Some((here.bucket().filter(|_| is_unchanged)?, here.stored_with_expiry(entry.expires_at_ms)?))
}

fn plan_removals(writes: &mut CompareAndSet, key: &Key, spots: &[Spot], env: &Env<'_>) {
    for spot in spots {
        plan_removal(writes, key, spot, env);
    }
}

/// Takes away what lies in a spot, the spilled value included.
fn plan_removal(writes: &mut CompareAndSet, key: &Key, spot: &Spot, env: &Env<'_>) {
    if !spot.is_stored() {
        return;
    }
    retire(writes, key, spot, env);
    match spot.bucket() {
        Some(place) => writes.write(&[b"HDEL", &place.physical, &place.field]),
        None => writes.write(&[b"UNLINK", spot.physical(&key.logical)]),
    }
}

/// What keys of a namespace hold, in the plural.
pub(crate) fn types_in(collection: Option<CollectionKind>) -> &'static str {
    match collection {
        None => "strings",
        Some(CollectionKind::Set) => "sets",
        Some(CollectionKind::Hash) => "hashes",
    }
}

/// The error of a command that would put another type under a folded key.
fn other_type(env: &Env<'_>, place: &Place, key: &[u8], kind: &[u8]) -> String {
    let namespace = env.layout.namespace(place.namespace);
    let (key, kind) = (key.escape_ascii(), kind.escape_ascii());
    format!(
        "ERR keyfold: '{key}' belongs to the namespace {}, whose keys are {}; it can't hold a {kind}",
        namespace.keys,
        types_in(place.kind.collection()),
    )
}
