//! Keys as such: deleting, renaming, copying, dumping, listing.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "DEL, UNLINK, EXISTS, TOUCH, TYPE",
        r#"
        DEL <0>
        MSET <0> a <1> b <2> "\x00" <3> <v*100> <4> ""
        EXISTS <0>
        EXISTS <0> <0> <0>
        EXISTS <0> <1> none <4>
        TOUCH <0> <1> none
        TYPE <0>
        TYPE <3>
        TYPE none
        DEL <0> <0>
        DEL <1> none <2>
        UNLINK <3> <3> <4>
        EXISTS <0> <1> <2> <3> <4>
        MSET <0> a <1> b other c
        DEL <0> other <1>
        SET <0> v EX 100000
        DEL <0>
        SET <0> v
        TTL <0>
        RPUSH list a
        TYPE list
        EXISTS list <0>
        DEL list <0>
        DEL
        UNLINK
        EXISTS
        TOUCH
        TYPE
        TYPE <0> <1>
    "#,
    ),
    case(
        "RENAME and RENAMENX",
        r#"
        RENAME <0> <1>
        RENAMENX <0> <1>
        SET <0> v
        RENAME <0> <1>
        GET <0>
        GET <1>
        SET <0> w EX 100000
        RENAME <0> <1>
        GET <1>
        TTL <1>
        SET <2> "\x00"
        RENAME <2> <1>
        GET <1>
        TTL <1>
        RENAME <1> <1>
        RENAMENX <1> <1>
        SET <3> <v*300>
        RENAME <3> <4>
        GET <4>
        RENAME <4> plain:to
        GET plain:to
        RENAME plain:to <5>
        GET <5>
        EXISTS plain:to <4>
        SET <6> x
        RENAMENX <5> <6>
        RENAMENX <5> <7>
        MGET <5> <6> <7>
        RENAME none none
        RENAME none <7>
        RENAMENX none <7>
        RENAME <6>
        RENAME <6> <7> <8>
        RENAMENX <6>
        RPUSH list a
        RENAME <6> list
        GET list
        RPUSH list2 a
        RENAME list2 list
        TYPE list
        RENAMENX list <7>
        GET <7>
    "#,
    ),
    case(
        "COPY",
        r#"
        COPY <0> <1>
        SET <0> v
        COPY <0> <1>
        COPY <0> <1>
        GET <1>
        SET <0> w EX 100000
        COPY <0> <1>
        GET <1>
        COPY <0> <1> REPLACE
        GET <1>
        TTL <1>
        SET <2> "\x03"
        COPY <2> <1> replace
        TTL <1>
        GET <1>
        SET <3> <v*100>
        COPY <3> <4>
        APPEND <4> more
        MGET <3> <4>
        COPY <3> plain:copy
        GET plain:copy
        COPY plain:copy <5>
        GET <5>
        COPY <0> <0>
        COPY <0> <0> REPLACE
        COPY <0> <0> DB 1
        COPY <0> <6> DB 1
        COPY <0> <6> DB 1
        COPY <0> <6> DB 1 REPLACE
        EXISTS <6>
        SELECT 1
        MGET <0> <6>
        TTL <6>
        COPY <6> <7> DB 0
        SELECT 0
        GET <7>
        COPY <0> <8> DB 99
        COPY <0> <8> DB -1
        COPY <0> <8> DB abc
        COPY <0> <8> DB
        COPY <0> <8> NOPE
        COPY <0>
        COPY none <8>
        EXISTS <8>
        RPUSH list a
        COPY list list2
        COPY <0> list
        COPY <0> list REPLACE
        GET list
    "#,
    ),
    case(
        "DUMP and RESTORE",
        r#"
        DUMP <0>
        SET <0> v
        DUMP <0>
        RESTORE <1> 0 <last>
        GET <1>
        RESTORE <1> 0 <last>
        SET <0> 12345
        DUMP <0>
        RESTORE <1> 0 <last> REPLACE
        INCR <1>
        SET <0> ""
        DUMP <0>
        RESTORE <2> 100000 <last>
        TTL <2>
        GET <2>
        SET <0> <abc*100> EX 100000
        DUMP <0>
        RESTORE <3> 0 <last>
        GET <3>
        TTL <3>
        RESTORE <4> 2000000000000 <last> ABSTTL
        PEXPIRETIME <4>
        RESTORE <4> 0 <last> replace IDLETIME 10
        RESTORE <4> 0 <last> REPLACE FREQ 10
        RESTORE <4> 0 <last> REPLACE IDLETIME -1
        RESTORE <4> 0 <last> REPLACE FREQ 256
        RESTORE <4> 0 <last> REPLACE FREQ x
        RESTORE <5> 1 <last> ABSTTL
        EXISTS <5>
        RESTORE <5> -1 <last>
        RESTORE <5> abc <last>
        RESTORE <5> 0 <last> NOPE
        RESTORE <5> 0 <last>x
        RESTORE <5> 0 x<last>
        RESTORE <5> 0 ""
        RESTORE <5> 0 garbage
        RESTORE <5> 0
        EXISTS <5>
        SET <0> "\x00\x01\xff"
        DUMP <0>
        RESTORE <6> 0 <last>
        GET <6>
        SET <0> 9223372036854775807
        DUMP <0>
        SET <0> -129
        DUMP <0>
        SET <0> 70000
        DUMP <0>
        SET <0> 007
        DUMP <0>
        SET <0> <a*20>
        DUMP <0>
        SET <0> <a*21>
        DUMP <0>
        RESTORE plain:restored 0 <last>
        GET plain:restored
        DUMP plain:restored
        RESTORE <7> 0 <last>
        GET <7>
        DUMP
        DUMP <0> <1>
        RPUSH list a
        DUMP list
        RESTORE list2 0 <last>
        LRANGE list2 0 -1
        RESTORE list 0 <last>
    "#,
    ),
    case(
        "OBJECT",
        r#"
        OBJECT ENCODING <0>
        SET <0> 12345
        OBJECT ENCODING <0>
        SET <0> abc
        OBJECT ENCODING <0>
        SET <0> <a*44>
        OBJECT ENCODING <0>
        SET <0> <a*45>
        OBJECT ENCODING <0>
        SET <0> <a*300>
        OBJECT ENCODING <0>
        SET <0> ""
        OBJECT ENCODING <0>
        SET <0> "\x00"
        OBJECT ENCODING <0>
        SET <0> 007
        object encoding <0>
        SET <0> 9223372036854775807
        OBJECT ENCODING <0>
        SET <0> 9223372036854775808
        OBJECT ENCODING <0>
        OBJECT REFCOUNT <0>
        OBJECT REFCOUNT none
        ?kind OBJECT IDLETIME <0>
        OBJECT IDLETIME none
        ?exact OBJECT IDLETIME <1>
        ?exact OBJECT FREQ <0>
        ?exact OBJECT FREQ <1>
        ?exact OBJECT REFCOUNT <1>
        OBJECT ENCODING <1>
        OBJECT IDLETIME <0> <1>
        OBJECT FREQ
        OBJECT HELP <0>
        OBJECT
        OBJECT NOPE <0>
        OBJECT ENCODING
        OBJECT ENCODING <0> <1>
        RPUSH list a
        OBJECT ENCODING list
    "#,
    ),
    case(
        "KEYS and DBSIZE",
        r#"
        KEYS *
        DBSIZE
        MSET <0> a <1> b <2> c <3> d <4> e <5> f <6> g <7> h <8> i <9> j <10> k <11> l
        MSET other:1 a other:2 b
        RPUSH list a
        KEYS *
        KEYS <all>
        KEYS <some>
        KEYS other:?
        KEYS [^u]*
        KEYS nothing*
        KEYS ""
        KEYS <3>
        KEYS "\x00*"
        KEYS *\?*
        KEYS *1*
        DBSIZE
        DEL <0> <1> other:1
        KEYS *
        DBSIZE
        KEYS
        KEYS a b
        DBSIZE x
    "#,
    ),
    case(
        "SCAN",
        r#"
        SCAN 0
        MSET <0> a <1> b <2> c <3> d <4> e <5> f <6> g <7> h <8> i <9> j <10> k <11> l
        MSET other:1 a other:2 b
        RPUSH list a
        HSET hash f v
        SCAN 0
        SCAN 0 COUNT 1
        SCAN 0 COUNT 1000
        SCAN 0 MATCH <all>
        SCAN 0 MATCH <some>
        SCAN 0 MATCH <all> COUNT 3
        SCAN 0 MATCH other:*
        SCAN 0 MATCH nothing*
        SCAN 0 TYPE string
        SCAN 0 TYPE STRING MATCH <some>
        SCAN 0 TYPE hash
        SCAN 0 type list count 5 match *
        SCAN 0 TYPE zset
        SCAN 0 TYPE nope
        SCAN 0 MATCH <some> MATCH *
        SCAN 0 COUNT 0
        SCAN 0 COUNT -1
        SCAN 0 COUNT abc
        SCAN 0 COUNT abc COUNT 3
        SCAN 0 COUNT abc WRONG
        SCAN 0 COUNT 0 COUNT 3
        SCAN 0 COUNT 3 COUNT 9223372036854775808
        SCAN 0 COUNT
        SCAN 0 MATCH
        SCAN 0 NOPE x
        SCAN abc
        SCAN abc COUNT x
        SCAN abc NOPE x
        SCAN -1
        SCAN ""
        SCAN 99999999999999999999
        SCAN
        EXPIRE <0> -1
        SCAN 0 COUNT 100
    "#,
    ),
    case(
        "RANDOMKEY",
        "
        RANDOMKEY
        SET <0> v
        RANDOMKEY
        MSET <1> a <2> b <3> c other d
        RANDOMKEY
        RANDOMKEY
        RANDOMKEY
        RANDOMKEY x
    ",
    ),
    case(
        "SELECT, FLUSHDB, FLUSHALL",
        "
        MSET <0> zero <1> zero
        SELECT 1
        GET <0>
        MSET <0> one <2> one other one
        MGET <0> <1> <2> other
        DBSIZE
        KEYS *
        SELECT 0
        MGET <0> <1> <2>
        DBSIZE
        SELECT 1
        FLUSHDB
        DBSIZE
        MGET <0> <2> other
        SET <0> again
        SELECT 0
        GET <0>
        FLUSHDB SYNC
        DBSIZE
        GET <0>
        SET <0> v
        FLUSHDB ASYNC
        EXISTS <0>
        SET <0> v
        FLUSHALL
        GET <0>
        SELECT 1
        GET <0>
        SET <0> v
        FLUSHALL ASYNC
        DBSIZE
        FLUSHALL SYNC
        FLUSHALL NOPE
        FLUSHDB NOPE
        FLUSHDB SYNC ASYNC
        SELECT 15
        SET <0> v
        GET <0>
        SELECT 16
        SELECT -1
        SELECT abc
        SELECT
        SELECT 1 2
        GET <0>
        b: GET <0>
        b: SELECT 15
        b: GET <0>
    ",
    ),
];
