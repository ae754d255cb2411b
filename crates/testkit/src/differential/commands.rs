//! The commands that are tried: how often, and what they look like.
//!
//! Keys of one template never come to hold another type than strings, since on a plain server such a key
//! would and in a bucket it can't: `{other-key}` is for what creates lists and hashes, and what moves keys
//! takes `{string-key}`.

use super::behind::Behind;

/// A weight and a form, as `grammar.rs` reads it.
pub(super) const COMMANDS: &[(u64, &str)] = &[
    // Strings.
    (90, "GET {key}"),
    (110, "SET {key} {value}"),
    (
        60,
        "SET {key} {value} [NX|XX] [GET] [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|KEEPTTL]",
    ),
    (12, "SETNX {key} {value}"),
    (10, "SETEX {key} {seconds} {value}"),
    (10, "PSETEX {key} {milliseconds} {value}"),
    (15, "GETSET {key} {value}"),
    (15, "GETDEL {key}"),
    (25, "GETEX {key} [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|PERSIST]"),
    (40, "MGET {key}+"),
    (15, "MSET {key} {value} [{key} {value}] [{key} {value}]"),
    (15, "MSETNX {key} {value} [{key} {value}] [{key} {value}]"),
    (30, "APPEND {key} {value}"),
    (15, "STRLEN {key}"),
    (15, "(GETRANGE|SUBSTR) {key} {index} {index}"),
    (20, "SETRANGE {key} {offset} {value}"),
    (4, "LCS {key} {key} [LEN|IDX [MINMATCHLEN {index}] [WITHMATCHLEN]]"),
    // Counters.
    (25, "(INCR|DECR) {key}"),
    (30, "(INCRBY|DECRBY) {key} {integer}"),
    (15, "INCRBYFLOAT {key} {float}"),
    // Bits.
    (12, "SETBIT {key} {bit-offset} {bit}"),
    (8, "GETBIT {key} {bit-offset}"),
    (8, "BITCOUNT {key} [{index} {index} [BYTE|BIT]]"),
    (8, "BITPOS {key} {bit} [{index} [{index} [BYTE|BIT]]]"),
    (
        15,
        "BITFIELD {key} [GET {field-type} {bit-offset}] [OVERFLOW (WRAP|SAT|FAIL)] [SET {field-type} {bit-offset} {integer}] [INCRBY {field-type} {bit-offset} {integer}]",
    ),
    (5, "BITFIELD_RO {key} [GET {field-type} {bit-offset}] [GET {field-type} {bit-offset}]"),
    (12, "BITOP (AND|OR|XOR) {key} {key}+"),
    (4, "BITOP NOT {key} {key}"),
    // Keys.
    (25, "DEL {key}+"),
    (8, "UNLINK {key}+"),
    (12, "EXISTS {key}+"),
    (5, "TOUCH {key}+"),
    (10, "TYPE {key}"),
    (25, "EXPIRE {key} {seconds} [NX|XX|GT|LT] [GT]"),
    (12, "PEXPIRE {key} {milliseconds} [NX|XX|GT|LT]"),
    (12, "EXPIREAT {key} {unix-seconds} [NX|XX|GT|LT]"),
    (12, "PEXPIREAT {key} {unix-milliseconds} [NX|XX|GT|LT]"),
    (15, "TTL {key}"),
    (10, "PTTL {key}"),
    (8, "EXPIRETIME {key}"),
    (8, "PEXPIRETIME {key}"),
    (12, "PERSIST {key}"),
    (15, "RENAME {string-key} {key}"),
    (8, "RENAMENX {string-key} {key}"),
    (2, "(RENAME|RENAMENX|COPY) {other-key} {other-key}"),
    (9, "COPY {string-key} {key} [REPLACE]"),
    (6, "COPY {string-key} {key} DB {bit} [REPLACE]"),
    (15, "DUMP {string-key}"),
    (15, "RESTORE {key} (0|{restore-milliseconds}) {payload} [REPLACE]"),
    (5, "RESTORE {key} {restore-milliseconds} {payload} [REPLACE] ABSTTL"),
    (5, "OBJECT ENCODING {string-key}"),
    (1, "OBJECT (REFCOUNT|IDLETIME|FREQ) {string-key}"),
    (2, "SCAN 0 [MATCH {pattern}] [COUNT (1|3|10|1000)] [TYPE {type}]"),
    (4, "KEYS {pattern}"),
    (2, "RANDOMKEY"),
    (2, "DBSIZE"),
    (4, "SELECT {bit}"),
    // Other types, on keys that may hold them and on keys that never do.
    (10, "LPUSH {other-key} {value}"),
    (4, "HSET {other-key} f {value}"),
    (3, "(LPUSHX|SREM|ZREM|HDEL) {key} {value}"),
    (6, "(LLEN|HLEN|SCARD|ZCARD|XLEN|LPOP|HGETALL) {key}"),
    (4, "HGET {key} f"),
    (4, "LRANGE {key} {index} {index}"),
    (2, "SORT {other-key} ALPHA"),
    // The connection.
    (5, "PING [{value}]"),
    (5, "ECHO {value}"),
    (3, "NOPE {key} {value}"),
    (2, "(EXEC|DISCARD|UNWATCH)"),
    (3, "EVAL \"return redis.call('GET', KEYS[1])\" 1 {plain-key}"),
    (2, "EVAL \"return redis.call('SET', KEYS[1], ARGV[1])\" 1 {plain-key} {value}"),
    (1, "PUBLISH channel {value}"),
];

/// Whether commands of a form are sent to a side.
pub(super) fn is_tried(form: &str, behind: Behind) -> bool {
    // A cluster has one database, and says so; one server has several.
    let of_databases = form.starts_with("SELECT") || form.contains(" DB ");
    behind != Behind::ClusterAsServer || !of_databases
}

/// What the other connection does to keys that are watched.
pub(super) const INTERFERENCE: &[&str] = &[
    "SET {key} {value}",
    "DEL {key}",
    "GET {key}",
    "APPEND {key} x",
    "EXPIRE {key} {seconds}",
    "PERSIST {key}",
    "INCR {key}",
    "RENAME {string-key} {key}",
];
