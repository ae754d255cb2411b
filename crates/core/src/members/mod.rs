//! What each set and hash command does, as pure functions on decoded collections.
//!
//! They are as those of [`crate::string`]: an exchange reads the keys that a command names into a [`Space`](crate::string::Space),
//! runs the command here, and writes back what changed by compare-and-set. The plain server is the oracle: every answer, errors
//! included, is the one it would give.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `cursor` | what servers take for the cursor and the options of SSCAN and HSCAN |
//! | `excerpt` | what SPOP, SRANDMEMBER, HRANDFIELD, SSCAN and HSCAN ask of what is too large to be read whole |
//! | `sets` | SADD and all others on sets |
//! | `hashes` | HSET and all others on hashes |

mod cursor;
mod excerpt;
mod hashes;
mod sets;

use crate::dialect::Since;
use crate::string::Run;

pub(crate) use cursor::is_cursor;
pub(crate) use excerpt::Excerpt;

/// A number of members, fields or bytes, as it is answered.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The function for a command by its whole lower-case name, or none where it is none on sets or hashes.
pub(crate) fn lookup(name: &[u8]) -> Option<Run> {
    sets::lookup(name).or_else(|| hashes::lookup(name))
}

/// The first servers that have a command on sets or hashes, by its lower-case name; none where every server has it.
pub(crate) fn since(name: &str) -> Option<Since> {
    hashes::since(name)
}
