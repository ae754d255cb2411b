//! String and key commands that came after Redis 7.0, on the servers that have them.
//!
//! What no server at hand has is compared with a model: [`crate::differential`].

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "SET IFEQ",
        r#"
        ?needs SET <0> v IFEQ x
        SET <0> v IFEQ x
        SET <0> v IFEQ x GET
        EXISTS <0>
        SET <0> v
        SET <0> w IFEQ x
        SET <0> w IFEQ x GET
        GET <0>
        SET <0> w ifeq v
        SET <0> "" IfEq w GET
        SET <0> x IFEQ ""
        SET <0> y IFEQ "x\x00"
        SET <0> y IFEQ x EX 100000
        TTL <0>
        SET <0> z IFEQ y KEEPTTL
        TTL <0>
        SET <0> z IFEQ y PX 1
        TTL <0>
        SET <0> z IFEQ z GET PXAT 1
        EXISTS <0>
        SET <1> 5
        SET <1> 6 IFEQ 5
        INCR <1>
        SET <1> v IFEQ 07
        SET <1> <x*200> IFEQ 7
        SET <1> <y*200> IFEQ <x*199>
        SET <1> <y*200> IFEQ <x*200>
        STRLEN <1>
        SET <1> short IFEQ <y*200> GET
        GET <1>
        SET <0> v IFEQ
        SET <0> v IFEQ a NX
        SET <0> v XX IFEQ a
        SET <0> v IFEQ a IFEQ a
        SET <0> v IFEQ a EX 0
        SET <0> v IFEQ a EX x
        SET <0> v IFEQ a KEEPTTL EX 5
        SET <0> v IFEQ a PERSIST
        SET <0> v IFEQ a NOPE
        RPUSH list a
        SET list v IFEQ a
        SET list v IFEQ a GET
        TYPE list
    "#,
    ),
    case(
        "SET IFEQ in a transaction",
        r#"
        ?needs SET <0> v IFEQ x
        SET <0> a
        MULTI
        SET <0> b IFEQ a
        SET <0> c IFEQ a GET
        SET plain d IFEQ a
        SET <1> e IFEQ a NX
        GET <0>
        EXEC
        WATCH <0>
        b: SET <0> f IFEQ b
        MULTI
        GET <0>
        EXEC
    "#,
    ),
    case(
        "DELIFEQ",
        r#"
        ?needs DELIFEQ <0> v
        DELIFEQ <0> v
        SET <0> v EX 100000
        DELIFEQ <0> V
        DELIFEQ <0> ""
        TTL <0>
        DELIFEQ <0> v
        EXISTS <0>
        SET <0> ""
        DELIFEQ <0> ""
        SET <0> 12
        DELIFEQ <0> 012
        DELIFEQ <0> 12
        SET <0> <x*200>
        DELIFEQ <0> <x*201>
        DELIFEQ <0> <x*200>
        GET <0>
        DELIFEQ <0>
        DELIFEQ <0> a b
        DELIFEQ
        RPUSH list a
        DELIFEQ list a
        MULTI
        SET <0> a
        DELIFEQ <0> a
        DELIFEQ <0> a
        DELIFEQ <1>
        EXEC
        EXISTS <0>
    "#,
    ),
    case(
        "MSETEX",
        r#"
        ?needs MSETEX 0 <0> v
        MSETEX 1 <0> a
        MSETEX 3 <0> b <1> c plain d EX 100000
        MGET <0> <1> plain
        TTL <0>
        TTL plain
        MSETEX 2 <0> x <2> y NX
        MSETEX 2 <0> x <2> y XX
        EXISTS <2>
        MSETEX 2 <0> x <1> y xx KeepTtl
        MGET <0> <1>
        TTL <1>
        MSETEX 2 <0> x <1> y
        TTL <1>
        MSETEX 2 <2> one <2> two NX
        GET <2>
        MSETEX 2 <2> one <3> <x*300> PX 100000000
        STRLEN <3>
        TTL <3>
        MSETEX 1 <3> gone EXAT 1
        EXISTS <3>
        MSETEX 2 <3> v <4> w PXAT 4102444800000 NX
        PEXPIRETIME <3>
        MSETEX 2 <3> v <4> w EXAT 4102444800 EXAT 4102444801
        PEXPIRETIME <4>
        MSETEX 0 <0> a
        MSETEX -1 <0> a
        MSETEX x <0> a
        MSETEX 2147483648 <0> a
        MSETEX 2147483647 <0> a
        MSETEX 2 <0> a <1>
        MSETEX 1 <0> a <1>
        MSETEX 1 <0> a NX XX
        MSETEX 1 <0> a NX NX
        MSETEX 1 <0> a GET
        MSETEX 1 <0> a IFEQ a
        MSETEX 1 <0> a EX
        MSETEX 1 <0> a EX 0
        MSETEX 1 <0> a EX x
        MSETEX 1 <0> a EX 1 PX 1
        MSETEX 1 <0> a KEEPTTL EX 1
        MSETEX 1 <0>
        MSETEX
        RPUSH list a
        MSETEX 2 list a <5> b NX
        MSETEX 2 list a <5> b
        TYPE list
        MULTI
        MSETEX 2 <0> m <6> n
        MSETEX 2 <6> o <7> p NX
        MSETEX x <6> o
        MSETEX 1 plain q XX
        GET <6>
        EXEC
        EXISTS <7>
    "#,
    ),
    case(
        "BITOP DIFF and its kin",
        r#"
        ?needs BITOP ONE <0> <1>
        SET <0> foobar
        SET <1> abcdef12
        SET <2> "\xff\x00"
        BITOP DIFF <5> <0> <1> <2>
        GET <5>
        BITOP DIFF1 <5> <0> <1> <2>
        GET <5>
        BITOP ANDOR plain <0> <1> <2>
        GET plain
        BITOP one <5> <0> <1> <2> <0>
        GET <5>
        BITOP ONE <5> <0>
        GET <5>
        BITOP DIFF <5> <0>
        BITOP diff1 <5> <0>
        BITOP ANDOR <5> <0>
        BITOP DIFF <5> <8> <9>
        EXISTS <5>
        RPUSH list a
        BITOP DIFF <5> list <0>
    "#,
    ),
    case(
        "DIGEST, DELEX and SET by digest",
        r#"
        ?needs DIGEST <0>
        DIGEST <0>
        SET <0> "Hello world"
        DIGEST <0>
        SET <0> hello
        DELEX <0> IFDEQ 9555e8555c62dcfe
        DELEX <0> IFDEQ 9555e8555c62dcf
        DELEX <0> IFDNE 9555E8555C62DCFD
        DELEX <0> NOPE x
        DELEX <0> IFEQ
        DELEX <0> IFEQ x y
        SET <0> other IFDEQ 9555E8555C62DCFD GET
        SET <0> more IFDNE 9555E8555C62DCFD
        SET <0> more IFDNE 12
        SET <1> new IFDNE 12
        SET <1> newer IFNE newer
        SET <1> newest IFEQ newer IFEQ newer
        SET <1> newest IFEQ newer IFNE newer
        GET <1>
        DELEX <1> IFNE newer
        DELEX <1> IFEQ newer
        DELEX <1> IFEQ newer
        DELEX <0>
        RPUSH list a
        DIGEST list
        DELEX list IFEQ a
        DELEX list NOPE a
        DELEX list
        DIGEST
        DELEX
    "#,
    ),
    case(
        "INCREX",
        r#"
        ?needs INCREX <0> EX
        INCREX <0>
        INCREX <0> BYINT 10 UBOUND 20 EX 100000
        TTL <0>
        INCREX <0> BYINT 10 UBOUND 20 PERSIST
        TTL <0>
        INCREX <0> BYINT 10 UBOUND 20 SATURATE EX 5 ENX
        TTL <0>
        INCREX <0> BYINT -1 LBOUND 100 SATURATE PERSIST
        TTL <0>
        INCREX <0> BYFLOAT 0.25
        INCREX <0> BYFLOAT 5 UBOUND 101
        INCREX <0> BYFLOAT 5 UBOUND 101 SATURATE
        INCREX <0> BYFLOAT x
        INCREX <0> BYFLOAT 1 LBOUND x
        INCREX <0> BYINT x
        INCREX <0> LBOUND 2 UBOUND 1
        INCREX <0> BYINT 1 BYINT 2
        INCREX <0> ENX
        INCREX <0> EX 0
        SET <0> text
        INCREX <0>
        INCREX <0> BYFLOAT 1
        INCREX <1> BYINT 5 UBOUND 4
        EXISTS <1>
        INCREX <1> EXAT 1
        EXISTS <1>
        RPUSH list a
        INCREX list
        INCREX
    "#,
    ),
];
