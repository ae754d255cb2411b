//! The connection itself: protocol, pipelines, inline commands, protocol errors.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "PING, ECHO, unknown commands",
        r#"
        PING
        PING hello
        PING a b
        ping "\x00"
        ECHO hello
        ECHO ""
        ECHO
        ECHO a b
        NOPE
        nope <0> b "c\r\nd"
        "" a
        "NOPE\x00" a
        NOPE <x*200> <y*200>
        NOPE a b c d e f g h i j k l m n o p q r s t u v w x y z
        CLIENT ID
        CLIENT SETNAME conformance
        CLIENT GETNAME
        CLIENT SETNAME "with space"
        CLIENT NOPE
        COMMAND COUNT x
        COMMAND GETKEYS SET <0> v
        COMMAND GETKEYS MGET <0> <1>
        TIME
    "#,
    ),
    case(
        "HELLO",
        r#"
        HELLO
        HELLO 2
        GET <0>
        HELLO 3
        GET <0>
        MGET <0> <1>
        LCS <0> <1> IDX
        HELLO 3 SETNAME conformance
        CLIENT GETNAME
        HELLO 4
        HELLO 1
        HELLO abc
        HELLO 3 NOPE
        HELLO 3 SETNAME
        HELLO 3 AUTH default
        HELLO 3 AUTH default wrong
        HELLO 3 AUTH nobody wrong
        HELLO 3 SETNAME "a b"
        GET <0>
        HELLO 2
        GET <0>
        EXEC
    "#,
    ),
    case(
        "RESET",
        "
        SELECT 3
        HELLO 3
        SET <0> v
        MULTI
        SET <0> w
        RESET
        GET <0>
        EXEC
        WATCH <1>
        b: SET <1> v
        RESET
        MULTI
        GET <1>
        EXEC
        CLIENT SETNAME conformance
        RESET
        CLIENT GETNAME
        RESET x
    ",
    ),
    case(
        "QUIT",
        "
        SET <0> v
        QUIT
        closed
        b: GET <0>
    ",
    ),
    case(
        "commands after QUIT",
        "
        +SET <0> v
        +QUIT
        x0 GET <0>
        closed
    ",
    ),
    case(
        "words end at a zero byte and are in any case",
        r#"
        SET <0> v
        SET <0> w "gEt\x00x"
        SET <0> 1 "eX\x00" 100000
        SET <0> 2 "KeepTTL\x00KEEPTTL"
        TTL <0>
        SET <0> 3 "\x00NX"
        GETEX <0> "PERSIST\x00EX"
        COPY <0> <1> "DB\x00" 0 "rePLACE\x00x"
        COPY <0> <2> "DB\x00" 3 "rePLACE\x00x"
        COPY <0> <2> "DB\x00" 99
        COPY <0> <2> "D\x00B" 3
        GET <1>
        HELLO 3 "SETNAME\x00x" conformance
        CLIENT GETNAME
        RPUSH list b a
        SORT list "ALPHA\x00" "STORE\x00x" sorted
        LRANGE sorted 0 -1
        "NOPE\x00" <0> "a\x00b" "c\r\nd"
        "\x00GET" <0>
        MULTI
        "NOPE\x00" <0> v
        GET <0>
        EXEC
        GET <0>
    "#,
    ),
    case(
        "POST",
        "
        SET <0> v
        x0 POST / HTTP/1.1
        closed
        b: GET <0>
    ",
    ),
    case(
        "Host:",
        r#"
        SET <0> v
        raw "Host: localhost\r\n"
        closed
    "#,
    ),
    case(
        "AUTH where no password is set",
        "
        AUTH secret
        AUTH default secret
        AUTH nobody secret
        AUTH
        AUTH a b c
        GET <0>
    ",
    ),
    case(
        "CLIENT REPLY",
        "
        SET <0> v
        x0 CLIENT REPLY SKIP
        x0 SET <0> unheard
        GET <0>
        x0 CLIENT REPLY OFF
        x0 SET <0> silent
        x0 GET <0>
        CLIENT REPLY ON
        GET <0>
    ",
    ),
    case(
        "a pipeline over all kinds of keys",
        r#"
        +SET <0> a
        +SET <1> b
        +SET plain:x c
        +GET <0>
        +GET plain:x
        +NOPE
        +INCR <2>
        +INCR <2>
        +APPEND <0> <v*100>
        +GET <0>
        +MGET <0> plain:x <1> <2>
        +PING
        +DEL <0>
        +GET <0>
        +SETRANGE <1> 3 "\x00"
        +GET <1>
        +RPUSH list a
        +LPOP list
        +SET <1>
        +GETDEL <1>
        +EXISTS <0> <1> <2>
        +SELECT 1
        +GET <2>
        +SET <2> other
        +SELECT 0
        GET <2>
    "#,
    ),
    case(
        "the protocol switches inside a pipeline",
        "
        +SET <0> v
        +GET <1>
        +HELLO 3
        +GET <1>
        +GET <0>
        +HELLO 2
        +GET <1>
        GET <0>
    ",
    ),
    case(
        "a command in pieces",
        r#"
        raw "*3\r\n$3\r\nSE"
        raw "T\r\n$3\r\nxyz\r\n$5\r\nhe"
        raw "l"
        x1 raw "lo\r\n"
        raw "*2\r\n$3\r\nGET\r\n$3\r\nxyz\r\n*1"
        read
        x1 raw "\r\n$4\r\nPING\r\n"
    "#,
    ),
    case(
        "inline commands",
        r#"
        x1 raw "PING\r\n"
        x1 raw "PING\n"
        x1 raw "  SET   inline   value  \r\n"
        x1 raw "GET inline\r\n"
        raw "\r\n"
        raw "\n"
        x1 raw "SET inline \"two words\\x00\\n\"\r\n"
        x1 raw "GET inline\r\n"
        x1 raw "SET inline 'it\\'s'\r\n"
        x1 raw "GET 'inline'\r\n"
        x1 raw "NOPE\r\n"
        x1 raw "GET\r\n"
        x2 raw "PING\r\nPING\r\n"
        x1 raw "*0\r\n*-1\r\nPING\r\n"
    "#,
    ),
    case(
        "an inline command on a key of the pool",
        r#"
        SET user:5:logins 7
        x1 raw "GET user:5:logins\r\n"
        x1 raw "INCR user:5:logins\r\n"
        x1 raw "SET cnt:inline \"\\x01\"\r\n"
        GET cnt:inline
    "#,
    ),
    case(
        "unbalanced quotes",
        r#"
        x1 raw "GET \"a\r\n"
        closed
    "#,
    ),
    case(
        "text after a quote",
        r#"
        x1 raw "GET \"a\"b\r\n"
        closed
    "#,
    ),
    case(
        "a bulk without its dollar",
        r#"
        x1 raw "*2\r\n$3\r\nGET\r\n:1\r\n"
        closed
    "#,
    ),
    case(
        "a bulk length that is no number",
        r#"
        x1 raw "*1\r\n$abc\r\n"
        closed
    "#,
    ),
    case(
        "a negative bulk length",
        r#"
        x1 raw "*1\r\n$-1\r\n"
        closed
    "#,
    ),
    case(
        "a bulk too long",
        r#"
        x1 raw "*1\r\n$999999999999\r\n"
        closed
    "#,
    ),
    case(
        "an array length that is no number",
        r#"
        x1 raw "*abc\r\n"
        closed
    "#,
    ),
    case(
        "an array too long",
        r#"
        x1 raw "*2147483648\r\n"
        closed
    "#,
    ),
    case(
        "an error after good commands",
        r#"
        x3 raw "PING\r\n*1\r\n$4\r\nPING\r\n*1\r\n!\r\n"
        closed
    "#,
    ),
];
