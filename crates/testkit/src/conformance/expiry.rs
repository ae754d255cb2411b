//! Expiries: set, read, removed, run out.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "EXPIRE and its kin",
        "
        EXPIRE <0> 100000
        SET <0> v
        TTL <0>
        PTTL <0>
        EXPIRETIME <0>
        PEXPIRETIME <0>
        EXPIRE <0> 100000
        TTL <0>
        PTTL <0>
        EXPIRETIME <0>
        PEXPIRETIME <0>
        PEXPIRE <0> 200000500
        TTL <0>
        EXPIREAT <0> 2000000000
        EXPIRETIME <0>
        PEXPIRETIME <0>
        PEXPIREAT <0> 2000000000499
        PEXPIRETIME <0>
        EXPIRETIME <0>
        PEXPIREAT <0> 2000000000500
        EXPIRETIME <0>
        GET <0>
        PERSIST <0>
        PERSIST <0>
        TTL <0>
        PERSIST none
        TTL none
        PTTL none
        EXPIRETIME none
        PEXPIRETIME none
        SET <1> <v*100>
        EXPIRE <1> 100000
        TTL <1>
        GET <1>
        PERSIST <1>
        TTL <1>
        SET <2> 41
        EXPIRE <2> 100000
        INCR <2>
        TTL <2>
        PERSIST <2>
        INCR <2>
        RPUSH list a
        EXPIRE list 100000
        TTL list
        PERSIST list
    ",
    ),
    case(
        "EXPIRE with NX, XX, GT, LT",
        "
        SET <0> v
        EXPIRE <0> 100000 XX
        EXPIRE <0> 100000 GT
        TTL <0>
        EXPIRE <0> 100000 NX
        EXPIRE <0> 200000 NX
        TTL <0>
        EXPIRE <0> 200000 XX
        TTL <0>
        EXPIRE <0> 100000 GT
        EXPIRE <0> 300000 GT
        TTL <0>
        EXPIRE <0> 400000 LT
        EXPIRE <0> 50000 LT
        TTL <0>
        EXPIRE <0> 60000 XX GT
        EXPIRE <0> 55000 XX LT
        TTL <0>
        PERSIST <0>
        EXPIRE <0> 100000 LT
        TTL <0>
        PEXPIREAT <0> 2000000000000 gt
        PEXPIREAT <0> 2000000000000 gt
        PEXPIREAT <0> 2000000000000 lt
        EXPIREAT <0> 2000000001 GT
        PEXPIRE <0> 100000000 LT
        TTL <0>
        EXPIRE <0> 100000 NX XX
        EXPIRE <0> 100000 NX GT
        EXPIRE <0> 100000 NX LT
        EXPIRE <0> 100000 GT LT
        EXPIRE <0> 100000 NOPE
        EXPIRE <0> 100000 NX NX
        EXPIRE <0> 100000 XX NOPE
        EXPIRE none 100000 NX
        EXPIRE none 100000 GT LT
        EXPIRE <0> -1 GT
        EXISTS <0>
        EXPIRE <0> -1 LT
        EXISTS <0>
    ",
    ),
    case(
        "EXPIRE refuses",
        "
        SET <0> v
        EXPIRE <0>
        EXPIRE
        EXPIRE <0> abc
        EXPIRE <0> 1.5
        EXPIRE <0> 9223372036854775807
        EXPIRE <0> 9223372036854776
        EXPIRE <0> -9223372036854775808
        PEXPIRE <0> 9223372036854775807
        PEXPIRE <0> abc
        EXPIREAT <0> 9223372036854775807
        EXPIREAT <0> abc
        PEXPIREAT <0> abc
        EXPIRE none abc
        EXPIRE none 9223372036854775807
        TTL
        TTL <0> <1>
        PTTL
        PERSIST
        PERSIST <0> <1>
        EXPIRETIME
        PEXPIRETIME <0> <1>
        TTL <0>
        PEXPIREAT <0> 9223372036854775807
        PEXPIRETIME <0>
        EXPIREAT <0> 253402300800
        EXPIRETIME <0>
        GET <0>
    ",
    ),
    case(
        "an expiry in the past deletes",
        "
        MSET <0> v <1> v <2> v <3> v <4> <v*100>
        EXPIRE <0> 0
        GET <0>
        EXPIRE <1> -1
        EXISTS <1>
        EXPIREAT <2> 1
        TTL <2>
        PEXPIREAT <3> 1
        TYPE <3>
        PEXPIRE <4> -5
        GET <4>
        KEYS <all>
        DBSIZE
        SETNX <0> w
        GET <0>
        TTL <0>
    ",
    ),
    case(
        "an expired key is absent to every command",
        "
        SET <0> 5 PX 1
        SET <1> <v*100> PX 1
        SET <2> stays
        ?until=:0 EXISTS <0> <1>
        GET <0>
        GET <1>
        MGET <0> <1> <2>
        TYPE <0>
        TTL <0>
        PTTL <1>
        STRLEN <1>
        KEYS <all>
        SCAN 0 COUNT 100
        DBSIZE
        RANDOMKEY
        PERSIST <0>
        EXPIRE <0> 100
        DEL <0>
        TOUCH <0>
        UNLINK <1>
        RENAME <0> <3>
        COPY <0> <3>
        DUMP <0>
        GETRANGE <1> 0 -1
        GETDEL <0>
        INCR <0>
        TTL <0>
        APPEND <1> x
        TTL <1>
        GET <1>
    ",
    ),
    case(
        "each way to an expired key begins anew",
        "
        MSET <0> 5 <1> 5 <2> 5 <3> 5 <4> 5 <5> 5
        PEXPIRE <0> 1
        PEXPIRE <1> 1
        PEXPIRE <2> 1
        PEXPIRE <3> 1
        PEXPIRE <4> 1
        PEXPIRE <5> 1
        ?until=:0 EXISTS <0> <1> <2> <3> <4> <5>
        INCRBY <0> 2
        SETNX <1> new
        SETBIT <2> 1 1
        SETRANGE <3> 1 x
        MSETNX <4> a <5> b
        MGET <0> <1> <2> <3> <4> <5>
        TTL <0>
        TTL <1>
        TTL <4>
    ",
    ),
];
