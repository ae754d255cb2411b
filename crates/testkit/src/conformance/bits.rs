//! Bits and bit fields.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "SETBIT and GETBIT",
        r#"
        GETBIT <0> 0
        SETBIT <0> 7 1
        GETBIT <0> 7
        GETBIT <0> 6
        GETBIT <0> 1000
        GET <0>
        SETBIT <0> 7 0
        GET <0>
        SETBIT <0> 1000 1
        STRLEN <0>
        GET <0>
        EXPIRE <0> 100000
        SETBIT <0> 0 1
        TTL <0>
        SET <1> 5
        SETBIT <1> 6 1
        GET <1>
        INCR <1>
        GETBIT <1> 2
        SETBIT <2> 100 0
        EXISTS <2>
        STRLEN <2>
        SETBIT <0> -1 1
        SETBIT <0> abc 1
        SETBIT <0> 4294967296 1
        SETBIT <0> 0 2
        SETBIT <0> 0 -1
        SETBIT <0> 0 x
        SETBIT <0> 0
        GETBIT <0> -1
        GETBIT <0> abc
        GETBIT <0> 4294967295
        GETBIT <0> 4294967296
        GETBIT <0>
        RPUSH list a
        SETBIT list 0 1
        GETBIT list 0
        SETBIT list -1 1
    "#,
    ),
    case(
        "BITCOUNT",
        "
        BITCOUNT <0>
        SET <0> foobar
        BITCOUNT <0>
        BITCOUNT <0> 0 0
        BITCOUNT <0> 1 1
        BITCOUNT <0> -2 -1
        BITCOUNT <0> 3 1
        BITCOUNT <0> 1 1 BYTE
        BITCOUNT <0> 5 30 BIT
        BITCOUNT <0> -30 -5 bit
        BITCOUNT <0> 0 1000 BIT
        BITCOUNT <0> 0
        BITCOUNT <0> 0 1 NOPE
        BITCOUNT <0> a 1
        BITCOUNT <0> 0 1 BIT x
        BITCOUNT none 0 0
        BITCOUNT none 0
        BITCOUNT none a b
        SET <1> 12345
        BITCOUNT <1>
        SET <2> <x*100>
        BITCOUNT <2>
        BITCOUNT <2> 10 -10
        RPUSH list a
        BITCOUNT list
        BITCOUNT list 0 x
        BITCOUNT
    ",
    ),
    case(
        "BITPOS",
        r#"
        BITPOS <0> 0
        BITPOS <0> 1
        BITPOS <0> 1 0 -1
        SET <0> "\xff\xf0\x00"
        BITPOS <0> 0
        BITPOS <0> 1
        BITPOS <0> 1 2
        BITPOS <0> 0 0 0
        BITPOS <0> 0 0 1
        BITPOS <0> 0 0 -1 BYTE
        BITPOS <0> 0 3 14 BIT
        BITPOS <0> 1 12 -1 BIT
        BITPOS <0> 1 -1
        BITPOS <0> 1 5
        BITPOS <0> 1 2 1
        SET <1> "\xff\xff"
        BITPOS <1> 0
        BITPOS <1> 0 0
        BITPOS <1> 0 0 -1
        BITPOS <1> 0 5
        SET <2> "\x00\x00"
        BITPOS <2> 1
        SET <2> ""
        BITPOS <2> 0
        BITPOS <0> 2
        BITPOS <0> a
        BITPOS <0> 1 a
        BITPOS <0> 1 0 b
        BITPOS <0> 1 0 1 NOPE
        BITPOS <0> 1 0 1 BIT x
        BITPOS <0>
        RPUSH list a
        BITPOS list 1
        BITPOS list 2
    "#,
    ),
    case(
        "BITFIELD",
        "
        BITFIELD <0>
        EXISTS <0>
        BITFIELD <0> GET u8 0
        EXISTS <0>
        BITFIELD <0> SET u8 0 255
        BITFIELD <0> GET u8 0 GET i8 0 GET u4 2
        BITFIELD <0> SET i5 100 1 GET u4 0
        GET <0>
        BITFIELD <1> INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD <1> INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD <1> INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD <1> INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD <1> OVERFLOW FAIL INCRBY u2 102 1
        BITFIELD <1> OVERFLOW FAIL SET u2 102 9
        BITFIELD <1> OVERFLOW WRAP SET i8 0 200 OVERFLOW SAT SET i8 8 200
        GET <1>
        BITFIELD <2> SET u8 #0 1 SET u8 #1 2 SET i16 #1 -2
        GET <2>
        BITFIELD <2> INCRBY i64 0 9223372036854775807 INCRBY i64 0 9223372036854775807
        BITFIELD <2> OVERFLOW SAT INCRBY i64 0 -9223372036854775808
        BITFIELD <2> GET u63 1 GET i1 0 GET u1 0
        EXPIRE <2> 100000
        BITFIELD <2> SET u8 0 7
        TTL <2>
        BITFIELD <2> GET u63 #100
        SET <3> 12
        BITFIELD <3> INCRBY u8 8 1
        GET <3>
        BITFIELD <4> SET u8 800 1
        STRLEN <4>
        BITFIELD <0> GET u64 0
        BITFIELD <0> GET i65 0
        BITFIELD <0> GET u0 0
        BITFIELD <0> GET x8 0
        BITFIELD <0> GET 8 0
        BITFIELD <0> GET u8
        BITFIELD <0> GET u8 -1
        BITFIELD <0> GET u8 abc
        BITFIELD <0> GET u8 #-1
        BITFIELD <0> GET u8 4294967296
        BITFIELD <0> SET u8 4294967288 1 NOPE
        BITFIELD <0> SET u8 0
        BITFIELD <0> SET u8 0 x
        BITFIELD <0> INCRBY u8 0
        BITFIELD <0> INCRBY u8 0 x
        BITFIELD <0> OVERFLOW
        BITFIELD <0> OVERFLOW NOPE
        BITFIELD <0> NOPE u8 0
        BITFIELD <0> OVERFLOW SAT
        BITFIELD
        GET <0>
        RPUSH list a
        BITFIELD list GET u8 0
        BITFIELD list SET u8 0 1
        BITFIELD list GET u99 0
    ",
    ),
    case(
        "BITFIELD_RO",
        "
        BITFIELD_RO <0> GET u8 0
        EXISTS <0>
        SET <0> abc
        BITFIELD_RO <0> GET u8 0 GET u8 #1 GET i3 2
        BITFIELD_RO <0>
        BITFIELD_RO <0> SET u8 0 1
        BITFIELD_RO <0> INCRBY u8 0 1
        BITFIELD_RO <0> OVERFLOW SAT GET u8 0
        BITFIELD_RO <0> GET u64 0
        SET <1> <x*100>
        BITFIELD_RO <1> GET u16 #40
        RPUSH list a
        BITFIELD_RO list GET u8 0
    ",
    ),
    case(
        "BITOP",
        r#"
        MSET <0> foobar <1> abcdef <2> "\xff"
        BITOP AND <3> <0> <1>
        GET <3>
        BITOP OR <3> <0> <1> <2>
        GET <3>
        BITOP xor <4> <0> <1>
        GET <4>
        BITOP NOT <5> <0>
        GET <5>
        BITOP NOT <0> <0>
        GET <0>
        BITOP AND <6> <0> none
        GET <6>
        EXPIRE <6> 100000
        BITOP OR <6> <1>
        TTL <6>
        GET <6>
        BITOP AND <6> none nope
        EXISTS <6>
        BITOP OR plain:dest <1> <2>
        GET plain:dest
        SET <7> <x*200>
        BITOP OR <8> <7> <0>
        GET <8>
        BITOP XOR <8> <7> <7> <7>
        STRLEN <8>
        SET <9> 12
        BITOP OR <9> <9> <9>
        GET <9>
        BITOP NOT <5> <0> <1>
        BITOP NOPE <5> <0>
        BITOP AND <5>
        BITOP NOT
        BITOP NAND <5> <0>
        GET <5>
        RPUSH list a
        BITOP AND <5> <0> list
        BITOP OR list <0> <1>
        TYPE list
    "#,
    ),
];
