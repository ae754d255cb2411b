//! What each command does to sets. Redis 7.0 t_set.c.
//!
//! All types are checked before anything is changed, and nothing is written where nothing changes.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `change` | members come and go: SADD, SREM, SMOVE |
//! | `look` | what is in a set: SCARD, SISMEMBER, SMISMEMBER, SMEMBERS |
//! | `scan` | SSCAN |
//! | `draw` | members by chance: SPOP, SRANDMEMBER |
//! | `algebra` | several sets: SINTER, SINTERCARD, SUNION, SDIFF, and what keeps the result |

mod algebra;
mod change;
mod draw;
mod look;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use scan::scan_options;

use crate::collection::Set;
use crate::resp::Answer;
use crate::string::{Halt, Run, Space, WRONG_TYPE};

/// The function for a command on sets by its lower-case name.
pub(super) fn lookup(name: &[u8]) -> Option<Run> {
    Some(match name {
        b"sadd" => change::sadd,
        b"scard" => look::scard,
        b"sdiff" => algebra::sdiff,
        b"sdiffstore" => algebra::sdiffstore,
        b"sinter" => algebra::sinter,
        b"sintercard" => algebra::sintercard,
        b"sinterstore" => algebra::sinterstore,
        b"sismember" => look::sismember,
        b"smembers" => look::smembers,
        b"smismember" => look::smismember,
        b"smove" => change::smove,
        b"spop" => draw::spop,
        b"srandmember" => draw::srandmember,
        b"srem" => change::srem,
        b"sscan" => scan::sscan,
        b"sunion" => algebra::sunion,
        b"sunionstore" => algebra::sunionstore,
        _ => return None,
    })
}

/// The set under `key`, to be changed; a new one where there is none.
fn edit<'s>(space: &'s mut Space, key: &[u8]) -> Result<&'s mut Set, Halt> {
    space.set(key)?;
    space.edit_set(key).ok_or_else(|| WRONG_TYPE.into())
}

/// Answers with how many there are.
fn answer_count(answer: &mut Answer<'_>, count: usize) {
    answer.integer(super::count(count));
}

/// Answers with all members of a set.
fn answer_set(answer: &mut Answer<'_>, set: &Set) {
    answer.set(set.len());
    set.iter().for_each(|member| answer.bulk(member));
}
