//! GET, SET and their kin; ranges; LCS.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "GET and SET of any bytes",
        r#"
        GET <0>
        SET <0> one
        GET <0>
        get <0>
        SET <0> ""
        GET <0>
        STRLEN <0>
        EXISTS <0>
        SET <1> "\x00"
        GET <1>
        SET <2> "\x01\x02\x1f\x20\xff\r\n"
        GET <2>
        SET <3> "\x1f"
        GET <3>
        SET <4> <a*44>
        GET <4>
        SET <4> <a*63>
        GET <4>
        SET <4> <a*64>
        GET <4>
        SET <4> <a*65>
        GET <4>
        SET <4> <ab*150>
        GET <4>
        SET <4> short
        GET <4>
        SET <4> <a*70000>
        GET <4>
        STRLEN <4>
        DEL <4>
        GET <4>
        SET <5> 9223372036854775807
        GET <5>
        SET <5> -9223372036854775808
        GET <5>
        SET <5> 9223372036854775808
        GET <5>
        SET <5> 007
        GET <5>
        SET <5> -0
        GET <5>
        SET <5> " 1"
        GET <5>
        SET <5> 1.50
        GET <5>
    "#,
    ),
    case(
        "GET and SET refuse",
        "
        GET
        GET <0> <1>
        SET
        SET <0>
        SET <0> v NOPE
        SET <0> v EX
        SET <0> v EX 0
        SET <0> v EX -1
        SET <0> v EX abc
        SET <0> v EX 1.5
        SET <0> v EX 9223372036854775807
        SET <0> v PX 0
        SET <0> v PX 9223372036854775807
        SET <0> v EXAT 0
        SET <0> v EXAT abc
        SET <0> v EXAT 9223372036854775807
        SET <0> v PXAT -5
        SET <0> v NX XX
        SET <0> v XX NX
        SET <0> v EX 100000 PX 100000
        SET <0> v EX 100000 KEEPTTL
        SET <0> v KEEPTTL EXAT 2000000000
        SET <0> v KEEPTTL KEEPTTL
        SET <0> v NX NX
        SET <0> v GET GET
        SET <0> v EX 100000 EX 100000
        SET <0> v PERSIST
        SET <0> v NX GET EX
        SET <0> v IFEQ
        SET <0> v IFEQ a NX
        GET <0>
    ",
    ),
    case(
        "SET with NX, XX and GET",
        r#"
        SET <0> one XX
        SET <0> one NX
        SET <0> two NX
        GET <0>
        SET <0> two XX
        GET <0>
        SET <0> three GET
        SET <1> one GET
        SET <1> two GET XX
        SET <2> one GET XX
        EXISTS <2>
        SET <2> one NX GET
        SET <2> two NX GET
        GET <2>
        SET <2> <x*100> get
        SET <2> "\x00" gEt
        SET <2> three nx get
        SET <2> "" xx GET
        GET <2>
        RPUSH list a
        SET list v GET
        SET list v NX
        SET list v XX
        GET list
        GET <0>
    "#,
    ),
    case(
        "SET with an expiry",
        "
        SET <0> v EX 100000
        TTL <0>
        PTTL <0>
        SET <0> w KEEPTTL
        TTL <0>
        GET <0>
        SET <0> <w*100> KEEPTTL
        TTL <0>
        SET <0> w
        TTL <0>
        SET <0> w PX 100000000
        TTL <0>
        SET <0> w EXAT 2000000000
        EXPIRETIME <0>
        PEXPIRETIME <0>
        SET <0> w PXAT 2000000000123
        EXPIRETIME <0>
        PEXPIRETIME <0>
        SET <0> 12 PXAT 2000000000123 GET XX
        GET <0>
        PEXPIRETIME <0>
        SET <0> v NX EX 100000
        PEXPIRETIME <0>
        SET <0> v PXAT 4102444800000
        PEXPIRETIME <0>
        SET <0> v PXAT 253402300800000
        PEXPIRETIME <0>
        SET <1> v KEEPTTL
        TTL <1>
        SET <1> v EXAT 1
        GET <1>
        EXISTS <1>
        TTL <1>
        SET <1> v PXAT 1
        SET <1> v NX
        GET <1>
        SET <2> v PX 1
        ?until=:0 EXISTS <2>
        GET <2>
        TTL <2>
        SET <2> w KEEPTTL
        TTL <2>
        SET <3> <v*200> PX 1
        ?until=:0 EXISTS <3>
        GET <3>
    ",
    ),
    case(
        "SETNX, SETEX, PSETEX",
        r#"
        SETNX <0> one
        SETNX <0> two
        GET <0>
        SETNX <1> ""
        SETNX <1> x
        SETNX <2> <v*65>
        GET <2>
        SETNX <0>
        SETEX <0> 100000 v
        TTL <0>
        SETNX <0> w
        TTL <0>
        SETEX <0> 0 v
        SETEX <0> -1 v
        SETEX <0> abc v
        SETEX <0> 9223372036854775807 v
        SETEX <0> 100000
        PSETEX <0> 100000000 "\x00v"
        GET <0>
        TTL <0>
        PSETEX <0> 0 v
        PSETEX <0> -1 v
        PSETEX <0> x v
        PSETEX <0> 9223372036854775807 v
        GET <0>
        RPUSH list a
        SETNX list v
        SETEX list 100000 v
        GET list
    "#,
    ),
    case(
        "GETSET and GETDEL",
        r#"
        GETSET <0> one
        GETSET <0> two
        EXPIRE <0> 100000
        GETSET <0> "\x02"
        TTL <0>
        GETSET <0> <v*300>
        GETSET <0> ""
        GETDEL <0>
        GETDEL <0>
        EXISTS <0>
        SET <1> <v*300> EX 100000
        GETDEL <1>
        GET <1>
        GETDEL
        GETDEL <0> <1>
        GETSET <0>
        RPUSH list a
        GETSET list v
        GETDEL list
    "#,
    ),
    case(
        "GETEX",
        "
        GETEX <0>
        GETEX <0> EX 100000
        SET <0> v
        GETEX <0>
        TTL <0>
        GETEX <0> EX 100000
        TTL <0>
        GETEX <0>
        TTL <0>
        GETEX <0> PX 200000000
        TTL <0>
        GETEX <0> EXAT 2000000000
        EXPIRETIME <0>
        GETEX <0> PXAT 2000000000500
        PEXPIRETIME <0>
        GETEX <0> PERSIST
        TTL <0>
        GETEX <0> PERSIST
        GETEX <0> EX 0
        GETEX <0> EX -1
        GETEX <0> EX abc
        GETEX <0> EX
        GETEX <0> EX 1 PX 1
        GETEX <0> PERSIST EX 100000
        GETEX <0> EX 100000 PERSIST
        GETEX <0> KEEPTTL
        GETEX <0> NX
        GETEX <0> EX 9223372036854775807
        GETEX
        GET <0>
        GETEX <0> EXAT 1
        GET <0>
        SET <1> <v*100>
        GETEX <1> EX 100000
        TTL <1>
        GETEX <1> PXAT 1
        EXISTS <1>
        RPUSH list a
        GETEX list
        GETEX list PERSIST
    ",
    ),
    case(
        "MGET, MSET, MSETNX",
        r#"
        MGET <0>
        MGET <0> <1> <2>
        MSET <0> a <1> b <2> c <3> d <4> e
        MGET <0> <1> <2> <3> <4> <5>
        MGET <4> <0> <4> none <0>
        MSET <0> a2 <0> a3
        GET <0>
        MSET <5> "\x00" <6> <v*65> <7> "" <8> 12345
        MGET <5> <6> <7> <8>
        EXPIRE <5> 100000
        MSET <5> x
        TTL <5>
        MSET <0>
        MSET <0> a <1>
        MSET <0> a "~0000:0"
        MSETNX <0> a "keyfold:layout"
        MSET
        MGET
        MSETNX <0> no <9> no
        EXISTS <9>
        MSETNX <9> yes <10> yes
        MGET <9> <10>
        MSETNX <11> a <11> b
        GET <11>
        MSETNX <12> a other:12 b
        MGET <12> other:12
        MSETNX <13>
        MSETNX <13> a b
        RPUSH list a
        MGET <0> list <1>
        MSETNX list v <14> w
        EXISTS <14>
        MSET list v <14> w
        MGET list <14>
    "#,
    ),
    case(
        "APPEND and STRLEN",
        r#"
        APPEND <0> ""
        EXISTS <0>
        DEL <0>
        APPEND <0> abc
        APPEND <0> def
        GET <0>
        STRLEN <0>
        EXPIRE <0> 100000
        APPEND <0> "\x00\x01"
        TTL <0>
        GET <0>
        APPEND <0> <x*60>
        GET <0>
        STRLEN <0>
        APPEND <0> <y*200>
        STRLEN <0>
        GET <0>
        SET <1> 10
        APPEND <1> 5
        INCR <1>
        GET <1>
        SET <2> "\x05"
        APPEND <2> x
        GET <2>
        STRLEN <2>
        STRLEN <3>
        STRLEN
        APPEND <0>
        APPEND <0> a b
        RPUSH list a
        APPEND list x
        STRLEN list
    "#,
    ),
    case(
        "GETRANGE, SUBSTR, SETRANGE",
        r#"
        GETRANGE <0> 0 -1
        SET <0> "Hello, world"
        GETRANGE <0> 0 -1
        GETRANGE <0> 0 4
        GETRANGE <0> -5 -1
        GETRANGE <0> -100 3
        GETRANGE <0> 5 100
        GETRANGE <0> 7 2
        GETRANGE <0> 100 200
        GETRANGE <0> -2 -5
        GETRANGE <0> -9223372036854775808 9223372036854775807
        SUBSTR <0> 2 4
        GETRANGE <0> a 1
        GETRANGE <0> 0 9223372036854775808
        GETRANGE <0> 0
        SUBSTR <0>
        SETRANGE <0> 7 keyfold
        GET <0>
        SETRANGE <0> 0 ""
        SETRANGE <0> 20 end
        GET <0>
        EXPIRE <0> 100000
        SETRANGE <0> 1 "\x00"
        TTL <0>
        GET <0>
        SETRANGE <0> -1 x
        SETRANGE <0> abc x
        SETRANGE <0> 536870912 x
        SETRANGE <0> 9223372036854775807 x
        SETRANGE <0> 1
        SETRANGE <1> 0 ""
        SETRANGE <1> 10 ""
        EXISTS <1>
        SETRANGE <1> 3 x
        GET <1>
        SETRANGE <2> 100 spill
        GET <2>
        GETRANGE <2> 95 -1
        SET <3> 1234567
        GETRANGE <3> 1 2
        SETRANGE <3> 2 0
        GET <3>
        INCR <3>
        RPUSH list a
        GETRANGE list 0 -1
        SETRANGE list 0 x
        SETRANGE list 0 ""
        SETRANGE list -1 x
    "#,
    ),
    case(
        "LCS",
        "
        LCS <0> <1>
        MSET <0> ohmytext <1> mynewtext <2> <ab*60>
        LCS <0> <1>
        LCS <0> <1> LEN
        LCS <0> <1> IDX
        LCS <0> <1> IDX MINMATCHLEN 4
        LCS <0> <1> IDX MINMATCHLEN 4 WITHMATCHLEN
        LCS <0> <1> IDX MINMATCHLEN -1
        LCS <0> <1> WITHMATCHLEN
        LCS <0> <2> LEN
        LCS <2> <2>
        LCS <0> <0>
        LCS <0> none
        LCS none <0> LEN
        LCS none <0> IDX
        LCS <0> <1> LEN IDX
        LCS <0> <1> MINMATCHLEN
        LCS <0> <1> MINMATCHLEN x
        LCS <0> <1> NOPE
        LCS <0>
        RPUSH list a
        LCS <0> list
        LCS list <0>
        LCS none list
    ",
    ),
];
