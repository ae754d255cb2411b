//! INCR, DECR and their kin.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "INCR, DECR, INCRBY, DECRBY",
        r#"
        INCR <0>
        INCR <0>
        DECR <0>
        DECR <1>
        INCRBY <0> 41
        DECRBY <0> 100
        GET <0>
        INCRBY <2> -7
        DECRBY <2> -7
        GET <2>
        INCRBY <0> 0
        EXPIRE <0> 100000
        INCR <0>
        TTL <0>
        DECRBY <0> 3
        GET <0>
        SET <3> 9223372036854775806
        INCR <3>
        INCR <3>
        INCRBY <3> 9223372036854775807
        GET <3>
        DECRBY <3> -1
        SET <3> -9223372036854775808
        DECR <3>
        INCRBY <3> -1
        DECRBY <3> 1
        DECRBY <3> -9223372036854775808
        INCRBY <3> -9223372036854775808
        INCR <3>
        GET <3>
        SET <3> 0
        DECRBY <3> -9223372036854775808
        DECRBY <3> 9223372036854775807
        GET <3>
    "#,
    ),
    case(
        "INCR and DECR refuse",
        r#"
        SET <0> abc
        INCR <0>
        SET <0> ""
        INCR <0>
        SET <0> " 1"
        INCR <0>
        SET <0> "1 "
        INCR <0>
        SET <0> 01
        INCR <0>
        SET <0> +1
        INCR <0>
        SET <0> -0
        DECR <0>
        SET <0> 1.0
        INCRBY <0> 1
        SET <0> "1\x00"
        INCR <0>
        SET <0> "\x01"
        INCR <0>
        SET <0> 9223372036854775808
        INCR <0>
        SET <0> <1*100>
        INCR <0>
        GET <0>
        SET <1> 5
        INCRBY <1> abc
        INCRBY <1> 1.5
        INCRBY <1> ""
        INCRBY <1> 9223372036854775808
        DECRBY <1> abc
        INCRBY <1>
        INCR
        INCR <1> <2>
        DECRBY <1> 1 2
        GET <1>
        RPUSH list a
        INCR list
        DECRBY list 1
        INCRBY list abc
        INCRBYFLOAT list 1
    "#,
    ),
    case(
        "INCRBYFLOAT",
        r#"
        INCRBYFLOAT <0> 1.5
        INCRBYFLOAT <0> 1.5
        GET <0>
        INCR <0>
        INCRBYFLOAT <0> 0.1
        INCRBYFLOAT <0> -4.1
        INCRBYFLOAT <0> 1e3
        INCRBYFLOAT <0> 5.0e-5
        GET <0>
        EXPIRE <0> 100000
        INCRBYFLOAT <0> 1
        TTL <0>
        SET <1> 3.0e3
        INCRBYFLOAT <1> 200
        SET <1> 10.50
        INCRBYFLOAT <1> 0.1
        SET <1> 0.1
        INCRBYFLOAT <1> 0.2
        SET <1> 1e17
        INCRBYFLOAT <1> 1
        SET <1> 1e300
        INCRBYFLOAT <1> 1e300
        STRLEN <1>
        INCRBYFLOAT <1> -1e-10
        SET <1> 1e4000
        INCRBYFLOAT <1> 1
        SET <1> 0x10
        INCRBYFLOAT <1> 1
        SET <1> -1
        INCRBYFLOAT <1> 1
        SET <1> 9223372036854775807
        INCRBYFLOAT <1> 1
        INCRBYFLOAT <1> inf
        INCRBYFLOAT <1> -inf
        INCRBYFLOAT <1> nan
        INCRBYFLOAT <1> abc
        INCRBYFLOAT <1> ""
        INCRBYFLOAT <1> " 1"
        INCRBYFLOAT <1> "1 "
        INCRBYFLOAT <1> "1\x00"
        INCRBYFLOAT <1> +1
        INCRBYFLOAT <1> .5
        INCRBYFLOAT <1> 5.
        SET <1> abc
        INCRBYFLOAT <1> 1
        SET <1> ""
        INCRBYFLOAT <1> 1
        SET <1> " 5"
        INCRBYFLOAT <1> 1
        SET <1> inf
        INCRBYFLOAT <1> 1
        INCRBYFLOAT <1>
        INCRBYFLOAT <1> 1 2
        GET <1>
    "#,
    ),
];
