//! HSET and all others on hashes. Redis 7.0 to 8.0 and Valkey 9.1 t_hash.c.
//!
//! A field whose time is over is no field: the [`Space`](crate::string::Space) hands out hashes without it. A server counts it
//! in HLEN until it comes to removing it; keyfold doesn't.
//!
//! What expires fields is in two forms, Redis's and Valkey's, which differ in the order of their checks, in the words of their
//! errors and in what they tell. The form is that of the server behind, and Redis's where that is a Redis of before.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `read` | HGET, HMGET, HGETALL, HKEYS, HVALS, HEXISTS, HLEN, HSTRLEN |
//! | `write` | HSET, HMSET, HSETNX, HDEL |
//! | `counter` | HINCRBY, HINCRBYFLOAT |
//! | `random` | HRANDFIELD |
//! | `scan` | HSCAN |
//! | `arguments` | fields that are counted, and times, as the newer commands take them |
//! | `expire` | HEXPIRE, HTTL and their relatives, HPERSIST |
//! | `timed` | HGETEX, HSETEX, HGETDEL |

mod arguments;
mod counter;
mod expire;
mod random;
mod read;
mod scan;
#[cfg(test)]
mod tests;
mod timed;
mod write;

pub(super) use random::{Draw, answer_fields};
pub(super) use scan::scan_options;

use super::count;
use crate::dialect::Since;
use crate::string::Run;

/// The function for a command on hashes by its lower-case name.
pub(super) fn lookup(name: &[u8]) -> Option<Run> {
    Some(match name {
        b"hdel" => write::hdel,
        b"hexists" => read::hexists,
        b"hexpire" => expire::hexpire,
        b"hexpireat" => expire::hexpireat,
        b"hexpiretime" => expire::hexpiretime,
        b"hget" => read::hget,
        b"hgetall" => read::hgetall,
        b"hgetdel" => timed::hgetdel,
        b"hgetex" => timed::hgetex,
        b"hincrby" => counter::hincrby,
        b"hincrbyfloat" => counter::hincrbyfloat,
        b"hkeys" => read::hkeys,
        b"hlen" => read::hlen,
        b"hmget" => read::hmget,
        b"hmset" => write::hmset,
        b"hpersist" => expire::hpersist,
        b"hpexpire" => expire::hpexpire,
        b"hpexpireat" => expire::hpexpireat,
        b"hpexpiretime" => expire::hpexpiretime,
        b"hpttl" => expire::hpttl,
        b"hrandfield" => random::hrandfield,
        b"hscan" => scan::hscan,
        b"hset" => write::hset,
        b"hsetex" => timed::hsetex,
        b"hsetnx" => write::hsetnx,
        b"hstrlen" => read::hstrlen,
        b"httl" => expire::httl,
        b"hvals" => read::hvals,
        _ => return None,
    })
}

/// The first servers that have a command, by its lower-case name; none where every server has it.
pub(super) fn since(name: &str) -> Option<Since> {
    Some(match name {
        "hexpire" | "hexpireat" | "hexpiretime" | "hpersist" | "hpexpire" | "hpexpireat" | "hpexpiretime" | "hpttl"
        | "httl" => Since::HASH_FIELD_EXPIRY,
        "hgetex" | "hsetex" => Since::HGETEX,
        "hgetdel" => Since::HGETDEL,
        _ => return None,
    })
}
