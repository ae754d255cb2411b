//! What keyfold keeps for itself in a server, all of it in one room: the names, and what is decided about them.
//!
//! | key | type | what it holds |
//! | --- | --- | --- |
//! | [`LAYOUT_KEY`], [`COPY_KEY`] | string | the register: the layout in force, twice ([`crate::change`]) |
//! | [`CHANGE_KEY`] | string | a change that is announced; gone by itself after some seconds |
//! | [`witness::key`] | string | in a cluster: the layout in force once more, or a change to it |
//! | [`ANSWERS_KEY`] | hash | during a change only: what each member says to it |
//! | [`DICTIONARIES_KEY`] | hash | [`dictionaries`]: what values are compressed by, and which codec slots there are |
//! | [`SWEEP_KEY`], [`EVICT_KEY`] | string | [`lease`]: which keyfold walks over all to remove what has expired, and which one evicts |
//! | [`ASKED_KEY`] | list | which keys were asked for through keyfolds that don't evict; gone by itself |
//! | [`FREQUENCY_KEY`] | hash | how often keys are asked for, as the keyfold that evicts knows it |
//! | [`MOVE_KEY`] | string | [`move_progress`]: how far a move has come; gone by itself |
//! | [`fence_key`] | string | for a second, before a change: a write that must come to nothing |
//! | [`scratch_key`] | any | within one MULTI: what only a server can compute |
//! | [`guard_key`] | string | while a transaction is carried out: expires where its values do |
//! | [`LAB_KEY`] | hash | marks a server that a study uses, and its settings as they were |
//!
//! All but the scratch keys and guards lie in database 0. Those that take part in changes of the layout, the dictionaries
//! and the lease share one slot, the *home*: in a cluster one node has them all, and one script reaches them together.
//! A fence key lies on the node that is tried out ([`fence_key`]), and scratch keys and guards in the slot of the keys that
//! a command is about. All names begin with
//! [`ADMINISTRATION_PREFIX`](crate::placement::name::ADMINISTRATION_PREFIX), and none of them is ever a client's.

pub mod dictionaries;
pub mod lease;
pub mod move_progress;
pub mod witness;

use crate::slot::Slot;

/// The register: the layout in force.
pub const LAYOUT_KEY: &[u8] = b"keyfold:{home}:layout";
/// The same once more.
pub const COPY_KEY: &[u8] = b"keyfold:{home}:layout:copy";
/// The announcement of a change.
pub const CHANGE_KEY: &[u8] = b"keyfold:{home}:change";
/// The members' answers to an announcement.
pub const ANSWERS_KEY: &[u8] = b"keyfold:{home}:answers";
/// Dictionaries by their names, and the records of codec slots.
pub const DICTIONARIES_KEY: &[u8] = b"keyfold:{home}:dictionaries";
/// Who sweeps.
pub const SWEEP_KEY: &[u8] = b"keyfold:{home}:sweep";
/// Who evicts.
pub const EVICT_KEY: &[u8] = b"keyfold:{home}:evict";
/// What keyfolds that don't evict have seen of requests, for the one that does.
pub const ASKED_KEY: &[u8] = b"keyfold:{home}:asked";
/// How often keys are asked for, for a keyfold that begins to evict.
pub const FREQUENCY_KEY: &[u8] = b"keyfold:{home}:frequency";
/// How far a move has come.
pub const MOVE_KEY: &[u8] = b"keyfold:{home}:move";
/// The slot of all keys that are `keyfold:{home}:…`. In a cluster one node has it.
pub fn home() -> Slot {
    Slot::of(LAYOUT_KEY)
}

/// A write that must come to nothing, on the node that has this slot.
pub fn fence_key(slot: Slot) -> Vec<u8> {
    [b"keyfold:{", slot.tag(), b"}:fence"].concat()
}

/// What only a server can compute about a key is worked out there, and gone in the same MULTI. It is in the key's slot.
pub fn scratch_key(key: &[u8]) -> Vec<u8> {
    [b"keyfold:{", Slot::of(key).tag(), b"}:scratch"].concat()
}

/// A transaction on keys of this slot is given up where this key expires. The nonce tells it from others.
pub fn guard_key(slot: Slot, nonce: u64) -> Vec<u8> {
    [b"keyfold:{", slot.tag(), b"}:until:", format!("{nonce:x}").as_bytes()].concat()
}

/// The mark that a study leaves.
pub const LAB_KEY: &[u8] = b"keyfold:lab";
/// No key, but a sharded channel that nobody listens to: replicas get what is published there.
pub const WAIT_CHANNEL: &[u8] = b"keyfold:wait";
/// The same before a cluster, in a slot of a node's: a key that is removed at the moment at which it is written.
pub fn wait_key(slot: crate::slot::Slot) -> Vec<u8> {
    [&b"keyfold:{"[..], slot.tag(), b"}:wait"].concat()
}

/// A key that nobody has: asking about it tells whether a command is allowed.
pub const PROBE_KEY: &str = "keyfold:probe";

/// Whether a name is one that keyfold itself writes, and not only reserved: somebody may have had it before.
pub fn is_own(name: &[u8]) -> bool {
    name.starts_with(b"keyfold:{") || name == LAB_KEY
}

/// Those that stay when nothing is folded any more and nobody serves: of no use then.
pub const LASTING: [&[u8]; 8] =
    [LAYOUT_KEY, COPY_KEY, DICTIONARIES_KEY, SWEEP_KEY, EVICT_KEY, ASKED_KEY, FREQUENCY_KEY, MOVE_KEY];
