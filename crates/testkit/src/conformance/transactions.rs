//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "MULTI and EXEC",
        r#"
        MULTI
        SET <0> 1
        INCR <0>
        GET <0>
        GET <1>
        EXEC
        GET <0>
        MULTI
        EXEC
        MULTI
        SET <1> "\x00"
        APPEND <1> x
        EXPIRE <1> 100000
        TTL <1>
        SET <2> <v*100>
        STRLEN <2>
        MGET <0> <1> <2> none
        DEL <0> <2>
        EXISTS <0> <1> <2>
        TYPE <1>
        EXEC
        MGET <0> <1> <2>
        MULTI
        SET plain:a v
        SET <3> w
        GET plain:a
        RPUSH list a b
        LRANGE list 0 -1
        PING
        ECHO hi
        GETSET <3> x
        EXEC
        GET <3>
    "#,
    ),
    case(
        "an error inside a transaction",
        "
        SET <0> abc
        RPUSH list a
        MULTI
        INCR <0>
        SET <1> v
        GET list
        LPUSH <0> a
        INCR list
        APPEND <1> w
        EXEC
        MGET <0> <1>
        MULTI
        SET <1> no
        SET <1>
        GET <1>
        EXEC
        GET <1>
        MULTI
        NOPE <1>
        SET <1> no
        EXEC
        GET <1>
        MULTI
        SET <1> v EX abc
        SET <1> x NX XX
        EXEC
        GET <1>
    ",
    ),
    case(
        "MULTI, EXEC and DISCARD out of place",
        "
        EXEC
        DISCARD
        MULTI
        MULTI
        SET <0> v
        EXEC
        GET <0>
        MULTI
        SET <0> w
        DISCARD
        GET <0>
        MULTI
        WATCH <0>
        SET <0> x
        EXEC
        GET <0>
        MULTI x
        EXEC x
        DISCARD x
        WATCH
        UNWATCH x
        MULTI
        NOPE
        DISCARD
        GET <0>
    ",
    ),
    case(
        "WATCH",
        "
        SET <0> 1
        WATCH <0>
        MULTI
        INCR <0>
        EXEC
        GET <0>
        WATCH <0>
        b: SET <0> 10
        MULTI
        INCR <0>
        EXEC
        GET <0>
        MULTI
        INCR <0>
        EXEC
        WATCH <0> <1>
        b: SET <1> v
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: SET <1> w
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        SET <0> mine
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: DEL none
        b: GET <0>
        b: PERSIST <0>
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: EXPIRE <0> 100000
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: DEL <0>
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: SET <0> x
        b: DEL <0>
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: SET <0> v
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: SET <0> v
        MULTI
        GET <0>
        EXEC
    ",
    ),
    case(
        "UNWATCH, DISCARD and an emptied server",
        "
        SET <0> 1
        WATCH <0>
        b: SET <0> 2
        UNWATCH
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: SET <0> 3
        MULTI
        GET <0>
        DISCARD
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        WATCH <1> <2>
        b: SET <2> v
        MULTI
        GET <0>
        EXEC
        WATCH <0>
        b: FLUSHALL
        MULTI
        GET <0>
        EXEC
        WATCH none
        b: FLUSHALL
        MULTI
        GET <0>
        EXEC
        SET <0> v
        WATCH <0>
        b: RENAME <0> <1>
        MULTI
        GET <1>
        EXEC
        WATCH <1>
        MULTI
        SET <1> x
        b: SET <1> y
        EXEC
        GET <1>
        WATCH <1>
        SELECT 1
        b: SET <1> z
        MULTI
        GET <1>
        EXEC
        UNWATCH
        MULTI
        UNWATCH
        EXEC
    ",
    ),
    case(
        "a watched key that runs out",
        "
        SET <0> v PX 1
        ?until=:0 EXISTS <0>
        WATCH <0>
        b: GET <0>
        MULTI
        GET <0>
        EXEC
        SET <0> v EX 100000
        WATCH <0>
        b: SET <0> w
        MULTI
        EXEC
        WATCH <0>
        MULTI
        TTL <0>
        EXEC
    ",
    ),
    case(
        "transactions in a pipeline",
        "
        +MULTI
        +SET <0> a
        +GET <0>
        +EXEC
        +MULTI
        +INCR <0>
        +EXEC
        +WATCH <0>
        +MULTI
        +SET <1> b
        +DISCARD
        +GET <1>
        GET <0>
    ",
    ),
    case(
        "SELECT inside a transaction",
        "
        MULTI
        SET <0> zero
        SELECT 1
        SET <0> one
        GET <0>
        EXEC
        GET <0>
        SELECT 0
        GET <0>
        MULTI
        KEYS *
        DBSIZE
        SCAN 0
        EXEC
    ",
    ),
];
