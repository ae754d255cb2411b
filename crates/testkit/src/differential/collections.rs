//! Sets and hashes: the keys of which some are folded, the layout that folds them, and the commands on them.
//!
//! A key never comes to hold another type than its own, since on a plain server it would and in a bucket it can't: so commands
//! that write name `{set}` or `{hash}`, and those that only read any key at all.

/// The layout that folds them: every rule, limits that some go over, with a codec and without.
pub const COLLECTIONS_LAYOUT: &str = r#"[[namespace]]
keys = "tags:{id:int}"
type = "set"
bucket = { span = 8 }
value_limit = 64

[[namespace]]
keys = "friends:{name}"
type = "set"
bucket = { count = 2 }
value_limit = 24

[[namespace]]
keys = "sess:{id:int}"
type = "hash"
bucket = { span = 8 }
value_limit = 64

[[namespace]]
keys = "cart:{user:int}:{shop}"
type = "hash"
bucket = { by = "user" }
value_limit = 4000
codec = { name = "zstd", level = 3 }

[[namespace]]
keys = "note:{id:int}"
bucket = { span = 8 }
"#;

/// Keys that hold sets, the folded ones first.
pub(super) const SETS: [&str; 8] =
    ["tags:1", "tags:2", "tags:900", "friends:ann", "friends:bob", "friends:", "set:a", "set:b"];

/// Keys that hold hashes.
pub(super) const HASHES: [&str; 8] =
    ["sess:1", "sess:2", "sess:900", "cart:1:a", "cart:1:b", "cart:2:a", "hash:a", "hash:b"];

/// Keys that hold strings.
pub(super) const STRINGS: [&str; 3] = ["note:1", "note:2", "plain:0"];

/// Members and names of fields: those that servers keep as integers and those that only look so, long ones, bytes.
pub(super) const MEMBERS: [&[u8]; 24] = [
    b"1",
    b"2",
    b"7",
    b"007",
    b"-1",
    b"48",
    b"127",
    b"128",
    b"32768",
    b"-9223372036854775808",
    b"9223372036854775807",
    b"9223372036854775808",
    b"1.5",
    b"",
    b"a",
    b"b",
    b"uid",
    b"ip",
    b"a longer member than most of the others are",
    b"\0\xff\r\n",
    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    b"\xe3\x81\x82",
    b"@",
];

/// A weight and a form, as `grammar.rs` reads it.
pub(super) const COMMANDS: &[(u64, &str)] = &[
    // Sets.
    (90, "SADD {set} {member}+"),
    (40, "SREM {set} {member}+"),
    // So many that they lie in parts, and few again.
    (
        12,
        "SADD {set} n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29 n30 n31 n32 n33 n34 n35 n36 n37 n38 n39",
    ),
    (
        8,
        "SREM {set} n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29 n30 n31 n32 n33 n34 n35 n36 n37 n38 n39",
    ),
    (20, "SISMEMBER {any} {member}"),
    (15, "SMISMEMBER {any} {member}+"),
    (15, "SCARD {any}"),
    (20, "SMEMBERS {any}"),
    (10, "SSCAN {any} 0 COUNT 10000"),
    (5, "SSCAN {any} 0 MATCH {member} COUNT 10000"),
    (15, "SMOVE {set} {set} {member}"),
    (12, "(SINTER|SUNION|SDIFF) {any}+"),
    (12, "(SINTERSTORE|SUNIONSTORE|SDIFFSTORE) {set} {set}+"),
    (6, "SINTERCARD 2 {any} {any} [LIMIT {index}]"),
    (3, "SRANDMEMBER {any} 100000"),
    (3, "SRANDMEMBER {any} [{index}]"),
    (2, "SORT {set} ALPHA"),
    (1, "ZUNION 2 {set} {set}"),
    // Hashes.
    (90, "HSET {hash} {member} {value} [{member} {value}]"),
    (
        12,
        "HSET {hash} n0 0 n1 37 n2 74 n3 111 n4 148 n5 185 n6 222 n7 259 n8 296 n9 333 n10 370 n11 407 n12 444 n13 481 n14 518 n15 555 n16 592 n17 629 n18 666 n19 703 n20 740 n21 777 n22 814 n23 851 n24 888 n25 925 n26 962 n27 999 n28 1036 n29 1073 n30 1110 n31 1147 n32 1184 n33 1221 n34 1258 n35 1295 n36 1332 n37 1369 n38 1406 n39 1443",
    ),
    (
        8,
        "HDEL {hash} n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29 n30 n31 n32 n33 n34 n35 n36 n37 n38 n39",
    ),
    (15, "HSETNX {hash} {member} {value}"),
    (6, "HMSET {hash} {member} {value}"),
    (30, "HGET {any} {member}"),
    (15, "HMGET {any} {member}+"),
    (20, "HGETALL {any}"),
    (8, "(HKEYS|HVALS) {any}"),
    (30, "HDEL {hash} {member}+"),
    (10, "HEXISTS {any} {member}"),
    (10, "HLEN {any}"),
    (8, "HSTRLEN {any} {member}"),
    (20, "HINCRBY {hash} {member} {integer}"),
    (10, "HINCRBYFLOAT {hash} {member} {float}"),
    (8, "HSCAN {any} 0 COUNT 10000"),
    (4, "HSCAN {any} 0 MATCH {member} COUNT 10000"),
    (3, "HRANDFIELD {any} 100000 [WITHVALUES]"),
    (3, "HRANDFIELD {any} [{index} [WITHVALUES]]"),
    // Keys.
    (20, "DEL {any}+"),
    (5, "UNLINK {any}+"),
    (12, "EXISTS {any}+"),
    (5, "TOUCH {any}+"),
    (15, "TYPE {any}"),
    (25, "EXPIRE {any} {seconds} [NX|XX|GT|LT]"),
    (10, "PEXPIREAT {any} {unix-milliseconds} [NX|XX|GT|LT]"),
    (15, "TTL {any}"),
    (10, "PTTL {any}"),
    (8, "PEXPIRETIME {any}"),
    (12, "PERSIST {any}"),
    (12, "(RENAME|RENAMENX) {set} {set}"),
    (12, "(RENAME|RENAMENX) {hash} {hash}"),
    (8, "COPY {set} {set} [REPLACE]"),
    (8, "COPY {hash} {hash} [REPLACE]"),
    (6, "RESTORE {set} (0|{restore-milliseconds}) {set-payload} [REPLACE]"),
    (6, "RESTORE {hash} (0|{restore-milliseconds}) {hash-payload} [REPLACE]"),
    (4, "OBJECT (REFCOUNT|IDLETIME|ENCODING) {any}"),
    (3, "SCAN 0 [MATCH {pattern}] [COUNT (1|3|10|1000)] [TYPE (set|hash|string|SET|list)]"),
    (3, "KEYS {pattern}"),
    (2, "DBSIZE"),
    (2, "RANDOMKEY"),
    // Commands on other types, which find that it is another one.
    (20, "(GET|STRLEN|GETDEL|INCR) {string}"),
    (20, "SET {string} {value}"),
    (10, "(GET|STRLEN|LLEN|ZCARD|LPOP) {any}"),
    (5, "MGET {any}+"),
    (4, "LPUSHX {any} {value}"),
    (5, "PING"),
    (2, "(EXEC|DISCARD|UNWATCH)"),
];

/// What servers from Redis 7.4 and Valkey 9.0 on have besides: fields that expire.
pub(super) const FIELD_EXPIRY: &[(u64, &str)] = &[
    (20, "HEXPIRE {hash} {seconds} [NX|XX|GT|LT] FIELDS 1 {member}"),
    (12, "HPEXPIREAT {hash} {unix-milliseconds} [NX|XX|GT|LT] FIELDS 2 {member} {member}"),
    (12, "HPERSIST {hash} FIELDS 1 {member}"),
    (10, "HTTL {any} FIELDS 2 {member} {member}"),
    (10, "HPTTL {any} FIELDS 1 {member}"),
    (6, "HPEXPIRETIME {any} FIELDS 2 {member} {member}"),
];

/// What the other connection does to keys that are watched.
pub(super) const INTERFERENCE: &[&str] = &[
    "SADD {set} {member}",
    "SREM {set} {member}",
    "HSET {hash} {member} {value}",
    "DEL {any}",
    "SMEMBERS {any}",
    "EXPIRE {any} {seconds}",
    "RENAME {set} {set}",
];
