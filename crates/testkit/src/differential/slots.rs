//! Which slots of a cluster commands name, and whether they are what keyfold carries out in parts.

use std::collections::BTreeSet;

use crate::cluster::slot_of;

/// The slots of a command's keys. Where it is no command, or malformed, there may be fewer.
pub(super) fn slots_of(args: &[Vec<u8>]) -> BTreeSet<u16> {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let Some(command) = keyfold_core::command::table().resolve(&words) else { return BTreeSet::new() };
    command.keys_in(&words).iter().filter_map(|key| words.get(key.index)).map(|key| slot_of(key)).collect()
}

/// Whether keyfold carries a command out in parts, where its keys are in several slots.
pub(super) fn goes_in_parts(args: &[Vec<u8>]) -> bool {
    const IN_PARTS: [&str; 5] = ["MGET", "DEL", "UNLINK", "EXISTS", "TOUCH"];
    IN_PARTS.iter().any(|name| is(args, name))
}

/// Whether a command has this name.
pub(super) fn is(args: &[Vec<u8>], name: &str) -> bool {
    args.first().is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()))
}
