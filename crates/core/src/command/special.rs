//! The few commands whose keys no spec describes, as the servers have them in code (`sortGetKeys`,
//! `migrateGetKeys`, `georadiusGetKeys`, `setGetKeys`, `bitfieldGetKeys`; db.c of Redis 7.0).

use super::keys::{Access, Keys};
use super::{Command, Id};
use crate::resp::word::{c_text, is_word};

/// Finds the keys of a request where the command's specs alone do not.
pub(super) type Special = fn(&Command, &[&[u8]], &mut Keys);

/// The function for a command, by its lower-case name.
pub(super) fn lookup(name: &str) -> Option<Special> {
    match name {
        "sort" | "sort_ro" => Some(sort),
        "migrate" => Some(migrate),
        "georadius" | "georadiusbymember" => Some(georadius),
        "set" => Some(set),
        "delex" => Some(delex),
        "bitfield" => Some(bitfield),
        "xreadgroup" => Some(xreadgroup),
        _ => None,
    }
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern …] [ASC | DESC] [ALPHA] [STORE key]`; the last
/// STORE counts. A pattern with a star reads keys named after the elements.
fn sort(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    keys.add_specs(&command.keys[..1], args);
    let mut store = None;
    let mut at = 2;
    while let Some(arg) = args.get(at) {
        if is_word(arg, "limit") {
            at += 2;
        } else if is_word(arg, "by") || is_word(arg, "get") {
            if args.get(at + 1).is_some_and(|pattern| c_text(pattern).contains(&b'*')) {
                keys.set_open();
            }
            at += 1;
        } else if is_word(arg, "store") && at + 1 < args.len() && command.id == Id::Sort {
            store = Some(at + 1);
            at += 1;
        }
        at += 1;
    }
    if let Some(index) = store {
        keys.push(index, Access::OW | Access::UPDATE);
    }
}

/// `MIGRATE host port key|"" db timeout [COPY] [REPLACE] [AUTH password | AUTH2 user password] [KEYS key …]`;
/// KEYS counts only where the key is empty.
fn migrate(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    let mut at = 6;
    while args.get(3).is_some_and(|key| key.is_empty()) && at < args.len() {
        let arg = args[at];
        if is_word(arg, "keys") {
            let access = command.keys[0].access;
            (at + 1..args.len()).for_each(|index| keys.push(index, access));
            return;
        }
        at += if is_word(arg, "auth") {
            2
        } else if is_word(arg, "auth2") {
            3
        } else {
            1
        };
    }
    keys.add_specs(&command.keys[..1], args);
}

/// `GEORADIUS key longitude latitude radius unit [… STORE key | STOREDIST key]`, BYMEMBER with one argument
/// less. Given twice, the last counts, where the specs would say the first.
fn georadius(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    keys.add_specs(&command.keys[..1], args);
    let mut store = None;
    let mut at = command.arity.unsigned_abs() as usize;
    while at + 1 < args.len() {
        if is_word(args[at], "store") || is_word(args[at], "storedist") {
            store = Some(at + 1);
            at += 1;
        }
        at += 1;
    }
    if let Some(index) = store {
        keys.push(index, Access::OW | Access::UPDATE);
    }
}

/// `SET key value [… GET …]`: it reads only with GET, or with a condition on the value (IFEQ and its kin).
/// The servers leave the condition out here; we say that it reads.
fn set(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    let reads = args.iter().skip(3).any(|arg| is_word(arg, "get") || is_condition(arg));
    let access = if reads { Access::RW | Access::ACCESS | Access::UPDATE } else { Access::OW | Access::UPDATE };
    refine(command, args, keys, access);
}

/// `DELEX key [condition]`: without a condition it only removes.
fn delex(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    let access = if args.len() == 2 { Access::RM } else { Access::RW | Access::ACCESS };
    refine(command, args, keys, access | Access::DELETE);
}

/// IFEQ and the like.
fn is_condition(option: &[u8]) -> bool {
    option.get(..2).is_some_and(|start| is_word(start, "if"))
}

/// `BITFIELD key [GET …] [OVERFLOW …] [SET …] [INCRBY …]`: it only reads where there is nothing but GET.
fn bitfield(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    let mut at = 2;
    let reads_only = loop {
        let Some(arg) = args.get(at) else { break true };
        let rest = args.len() - at - 1;
        if is_word(arg, "get") && rest >= 2 {
            at += 3;
        } else if is_word(arg, "overflow") && rest >= 1 {
            at += 2;
        } else {
            break false;
        }
    };
    let access = if reads_only { Access::RO | Access::ACCESS } else { Access::RW | Access::ACCESS | Access::UPDATE };
    refine(command, args, keys, access);
}

/// `XREADGROUP [COUNT count] [BLOCK milliseconds] [NOACK] GROUP group consumer STREAMS key … id …`. The spec looks for
/// STREAMS from the fourth argument on, and so takes a group of that name for the word. The server itself reads the
/// options one after the other; what it then takes for keys are keys here too.
fn xreadgroup(command: &Command, args: &[&[u8]], keys: &mut Keys) {
    keys.add_specs(&command.keys, args);
    let (mut at, mut has_group) = (1, false);
    while let Some(arg) = args.get(at) {
        if is_word(arg, "streams") {
            let streams = (args.len() - at - 1) / 2;
            let missing = |index: &usize| !keys.iter().any(|key| key.index == *index);
            let named: Vec<usize> = (at + 1..=at + streams).filter(missing).collect();
            if has_group {
                named.into_iter().for_each(|index| keys.push(index, command.keys[0].access));
            }
            return;
        }
        has_group |= is_word(arg, "group");
        at += match () {
            () if is_word(arg, "group") => 3,
            () if is_word(arg, "noack") => 1,
            () => 2,
        };
    }
}

/// The keys of the specs, with another access.
fn refine(command: &Command, args: &[&[u8]], keys: &mut Keys, access: Access) {
    for spec in &command.keys {
        keys.add_spec(&super::keys::KeySpec { access, ..*spec }, args);
    }
}
