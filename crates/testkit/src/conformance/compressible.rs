//! Values that codecs shorten: long ones that repeat themselves, hexadecimal text, uuids. Whatever a value is stored
//! as, each command takes it for what the client wrote.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "parts of compressible values",
        r#"
        SET <0> <abcabcabd*40>
        GET <0>
        STRLEN <0>
        GETRANGE <0> 3 12
        GETRANGE <0> -5 -1
        SUBSTR <0> 0 1
        BITCOUNT <0>
        BITCOUNT <0> 1 -2
        BITPOS <0> 1
        GETBIT <0> 9
        OBJECT ENCODING <0>
        TYPE <0>
        EXISTS <0> <1>
        APPEND <0> xyz
        GETRANGE <0> 355 400
        SETRANGE <0> 10 "\x00\x01\x02"
        GET <0>
        SETRANGE <0> 500 end
        GET <0>
        SETBIT <0> 9 1
        BITFIELD <0> SET u8 16 200 GET u4 4 INCRBY i5 100 1
        GET <0>
        GETSET <0> 12
        INCR <0>
        INCRBYFLOAT <0> 0.5
        SET <0> <abcabcabd*40> GET
        INCR <0>
        DECRBY <0> 3
        INCRBYFLOAT <0> 1
        GETDEL <0>
        GET <0>
    "#,
    ),
    case(
        "hexadecimal text and uuids",
        r#"
        SET <0> 00112233445566778899aabbccddeeff
        GET <0>
        APPEND <0> 0
        GET <0>
        APPEND <0> 1
        GET <0>
        SET <1> f3d72fe1-750b-47c0-9526-4728852a4e5b
        GET <1>
        SETRANGE <1> 0 F
        GET <1>
        STRLEN <1>
        SET <2> 00112233445566778899AABBCCDDEEFF
        GET <2>
        SET <3> 0011
        INCR <3>
        SET <3> 1122334455667788
        INCR <3>
        GET <3>
        MGET <0> <1> <2> <3> <4>
        LCS <0> <2>
        BITOP XOR <4> <0> <2>
        GET <4>
    "#,
    ),
    case(
        "compressible values that expire",
        r#"
        SET <0> <abcabcabd*40> EX 1000
        TTL <0>
        STRLEN <0>
        APPEND <0> more
        TTL <0>
        SET <0> <defdefg*60> KEEPTTL
        TTL <0>
        PERSIST <0>
        TTL <0>
        SETEX <1> 1000 <abcabcabd*40>
        PSETEX <2> 1000000 <abcabcabd*40>
        GETEX <1> PERSIST
        GETEX <2> EX 5000
        TTL <1>
        TTL <2>
        SET <3> <abcabcabd*40> PX 20
        ?until=:0 EXISTS <3>
        GET <3>
        APPEND <3> again
        GET <3>
        SET <4> <abcabcabd*40> PXAT 1
        GET <4>
        SET <4> <abcabcabd*40> NX EX 100
        SET <4> other NX
        SET <4> <defdefg*60> XX GET
        TTL <4>
        SETNX <4> nothing
        SETNX <5> <abcabcabd*40>
        GET <5>
    "#,
    ),
    case(
        "compressible values between keys",
        r#"
        MSET <0> <abcabcabd*40> <1> <a*300> <2> short <3> 17
        MGET <0> <1> <2> <3> <4>
        COPY <0> <4>
        GET <4>
        COPY <0> <1>
        COPY <0> <1> REPLACE
        GET <1>
        RENAME <0> <5>
        GET <0>
        GET <5>
        RENAMENX <5> <1>
        RENAMENX <5> <6>
        GET <6>
        MSETNX <6> a <7> b
        MSETNX <7> <abcabcabd*40> <8> <defdefg*60>
        MGET <7> <8>
        BITOP AND <9> <7> <8>
        STRLEN <9>
        DUMP <7>
        RESTORE <10> 0 <last>
        RESTORE <10> 0 <last>
        RESTORE <10> 100000 <last> REPLACE
        GET <10>
        TTL <10>
        SORT <7>
        LPUSH <7> a
        HGET <7> a
        DEL <7> <8> <9>
        EXISTS <7> <8> <9> <10>
        KEYS <all>
        SCAN 0 MATCH <all> COUNT 1000
        RANDOMKEY
    "#,
    ),
    case(
        "transactions on compressible values",
        r#"
        SET <0> <abcabcabd*40>
        MULTI
        APPEND <0> x
        STRLEN <0>
        SET <1> <defdefg*60>
        COPY <1> <2>
        INCR <3>
        EXEC
        MGET <0> <1> <2> <3>
        WATCH <0>
        GET <0>
        b: SETRANGE <0> 0 changed
        MULTI
        SET <0> lost
        EXEC
        GETRANGE <0> 0 9
        WATCH <0>
        b: GET <0>
        MULTI
        GETRANGE <0> 0 9
        SETRANGE <0> 0 again
        GETDEL <1>
        EXEC
        GET <0>
        GET <1>
    "#,
    ),
];
