//! What each string and key command does, as pure functions on decoded values.
//!
//! An exchange reads the keys that a command names into a [`Space`], runs the command here, and writes
//! back what changed by compare-and-set; EXEC runs its whole queue on one space. The plain server is the
//! oracle: every answer, errors included, is the one it would give.
//!
//! A function never changes the space before it can fail, and never before it asks for help: it may be
//! run again from the start.

mod bitfield;
mod bits;
pub mod glob;
mod lcs;
mod space;

pub use space::{Ask, Entry, Flow, Halt, Held, Reply, Space, WRONG_TYPE, finish};

use crate::resp::Answer;

/// The key that an [`Ask`] works on; no client's.
pub const SCRATCH: &[u8] = b"keyfold:scratch";

/// One command as it came: its name and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The arguments, the command's name first.
    pub args: &'a [&'a [u8]],
}

/// A command's function: reads and changes `space`, writes exactly one reply to `answer`.
pub type Run = fn(&Call<'_>, &mut Space, &mut Answer<'_>) -> Flow;

/// The function for a command by its lower-case name, or none where it is not a string or key command.
pub fn lookup(name: &[u8]) -> Option<Run> {
    match name {
        b"strlen" => Some(strlen),
        b"setbit" => Some(bits::setbit),
        b"getbit" => Some(bits::getbit),
        b"bitcount" => Some(bits::bitcount),
        b"bitpos" => Some(bits::bitpos),
        b"bitop" => Some(bits::bitop),
        b"bitfield" => Some(bitfield::bitfield),
        b"bitfield_ro" => Some(bitfield::bitfield_ro),
        b"lcs" => Some(lcs::lcs),
        _ => None,
    }
}

/// STRLEN key: the length in bytes, 0 where there is none.
fn strlen(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let len = space.string(call.args[1])?.map_or(0, |entry| entry.value.len());
    answer.integer(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}
