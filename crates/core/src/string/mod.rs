//! What each string and key command does, as pure functions on decoded values.
//!
//! An exchange reads the keys that a command names into a [`Space`], runs the command here, and writes
//! back what changed by compare-and-set; EXEC runs its whole queue on one space. The plain server is the
//! oracle: every answer, errors included, is the one it would give.
//!
//! A value whose bytes weren't read, because they are many or can't be decoded, is there all the same: a command
//! that needs none of them works on it, and one that does halts.
//!
//! A function never changes the space before it can fail, and never before it asks for help: it may be
//! run again from the start.

mod bit_range;
mod bitfield;
mod bitop;
mod bits;
mod condition;
mod counter;
mod counter_ex;
mod counter_float;
mod dump;
mod expire;
mod keyspace;
mod lcs;
mod many;
mod object;
mod options;
mod range;
mod set;
mod space;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use bitfield::written_within_doubles;
pub(crate) use expire::{Condition, ExpireCommand, ExpireForm, echo_error, to_seconds};
pub(crate) use keyspace::CopyCommand;
pub(crate) use many::{MOST_ANSWERED_BYTES, TOO_MUCH_ASKED, TOO_MUCH_DECODED};
pub(crate) use options::{Of, Options, Unit};
pub(crate) use set::{GetexCommand, SetCommand, SetForm};
pub(crate) use space::SCRATCH;
pub use space::{Collected, Entry, Flow, Halt, Held, HelpRequest, Reply, Space, Unread, WRONG_TYPE, WhyUnread, finish};

use crate::dialect::{Dialect, Since};
use crate::number::{NOT_AN_INTEGER, parse_integer};
use crate::resp::Answer;

/// The longest string, in bytes: the server's default `proto-max-bulk-len`.
pub const MAX_STRING_BYTES: i64 = 512 * 1024 * 1024;

/// The error of options that a command doesn't take, or not together.
pub(crate) const SYNTAX_ERROR: &str = "ERR syntax error";

/// One command as it came: its name, its arguments, and by whose rules they are read.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The arguments, the command's name first.
    pub args: &'a [&'a [u8]],
    /// Which options there are, and which error comes first.
    pub dialect: Dialect<'a>,
}

impl Call<'_> {
    /// The integer in argument `index`, or the error that the server answers with.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, Halt> {
        integer(self.args[index])
    }
}

/// The integer that an argument is, or the error that the server answers with.
fn integer(arg: &[u8]) -> Result<i64, Halt> {
    parse_integer(arg).ok_or_else(|| NOT_AN_INTEGER.into())
}

/// A command's function: reads and changes `space`, writes exactly one reply to `answer`.
pub type Run = fn(&Call<'_>, &mut Space, &mut Answer<'_>) -> Flow;

/// The function for a command by its whole lower-case name, or none where it is not a string or key command.
pub(crate) fn lookup(name: &[u8]) -> Option<Run> {
    Some(match name {
        b"append" => range::append,
        b"bitcount" => bits::bitcount,
        b"bitfield" => bitfield::bitfield,
        b"bitfield_ro" => bitfield::bitfield_ro,
        b"bitop" => bitop::bitop,
        b"bitpos" => bits::bitpos,
        b"copy" => keyspace::copy,
        b"decr" => counter::decr,
        b"decrby" => counter::decrby,
        b"del" | b"unlink" => keyspace::del,
        b"delex" => condition::delex,
        b"delifeq" => condition::delifeq,
        b"digest" => condition::digest,
        b"dump" => dump::dump,
        b"exists" | b"touch" => keyspace::exists,
        b"expire" => expire::expire,
        b"expireat" => expire::expireat,
        b"expiretime" => expire::expiretime,
        b"get" => set::get,
        b"getbit" => bits::getbit,
        b"getdel" => set::getdel,
        b"getex" => set::getex,
        b"getrange" | b"substr" => range::getrange,
        b"getset" => set::getset,
        b"incr" => counter::incr,
        b"incrby" => counter::incrby,
        b"incrbyfloat" => counter::incrbyfloat,
        b"increx" => counter_ex::increx,
        b"lcs" => lcs::lcs,
        b"mget" => many::mget,
        b"mset" => many::mset,
        b"msetex" => many::msetex,
        b"msetnx" => many::msetnx,
        b"object|encoding" => object::encoding,
        b"object|freq" => object::freq,
        b"object|idletime" => object::idletime,
        b"object|refcount" => object::refcount,
        b"persist" => expire::persist,
        b"pexpire" => expire::pexpire,
        b"pexpireat" => expire::pexpireat,
        b"pexpiretime" => expire::pexpiretime,
        b"psetex" => set::psetex,
        b"pttl" => expire::pttl,
        b"rename" => keyspace::rename,
        b"renamenx" => keyspace::renamenx,
        b"restore" => dump::restore,
        b"set" => set::set,
        b"setbit" => bits::setbit,
        b"setex" => set::setex,
        b"setnx" => set::setnx,
        b"setrange" => range::setrange,
        b"strlen" => range::strlen,
        b"ttl" => expire::ttl,
        b"type" => keyspace::type_of,
        _ => return None,
    })
}

/// The first servers that have a command, by its lower-case name; none where every server has it.
pub(crate) fn since(name: &str) -> Option<Since> {
    Some(match name {
        "delex" => Since::DELEX,
        "delifeq" => Since::DELIFEQ,
        "digest" => Since::DIGEST,
        "increx" => Since::INCREX,
        "msetex" => Since::MSETEX,
        _ => return None,
    })
}

/// The first servers that have all options of a request; none where every server has them.
pub(crate) fn since_of_options(name: &str, args: &[&[u8]]) -> Option<Since> {
    match name {
        "set" => set::since_of_options(args),
        "bitop" => bitop::since_of_operation(args),
        _ => None,
    }
}

/// The refusal of a command that is about more of a key of another type than that it is there.
fn not_on_type(command: &str, kind: &[u8]) -> Halt {
    let kind = String::from_utf8_lossy(kind);
    Halt::OtherType(format!("ERR keyfold: {command} of a {kind} on a folded key is not supported"))
}
