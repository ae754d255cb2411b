//! Publish and subscribe, in both protocols.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "SUBSCRIBE and PUBLISH",
        r#"
        PUBLISH news nobody
        SUBSCRIBE news
        b: PUBLISH news hello
        read
        b: PUBLISH other unheard
        b: PUBLISH news "\x00\r\n"
        read
        x2 SUBSCRIBE sport news
        b: PUBSUB NUMSUB news sport none
        ?unordered b: PUBSUB CHANNELS
        b: PUBSUB NUMPAT
        b: PUBLISH sport goal
        read
        PING
        PING payload
        UNSUBSCRIBE sport
        b: PUBLISH sport unheard
        UNSUBSCRIBE news
        PING
        UNSUBSCRIBE
        UNSUBSCRIBE never
    "#,
    ),
    case(
        "PSUBSCRIBE",
        "
        PSUBSCRIBE n?ws*
        b: PUBLISH news.art x
        read
        SUBSCRIBE news.art
        b: PUBLISH news.art both
        read
        read
        b: PUBSUB NUMPAT
        PUNSUBSCRIBE n?ws*
        PUNSUBSCRIBE
        UNSUBSCRIBE
    ",
    ),
    case(
        "keys' names are channels too",
        "
        SUBSCRIBE <0>
        b: SET <0> v
        b: PUBLISH <0> x
        read
        b: GET <0>
        UNSUBSCRIBE <0>
        GET <0>
    ",
    ),
    case(
        "what a subscriber may ask",
        "
        SET <0> v
        SUBSCRIBE news
        GET <0>
        SET <0> w
        MULTI
        ?skip DISCARD
        NOPE
        PING
        UNSUBSCRIBE news
        GET <0>
    ",
    ),
    case(
        "RESET ends subscriptions",
        "
        SUBSCRIBE news
        RESET
        b: PUBLISH news x
        PING
        GET <0>
    ",
    ),
    case(
        "subscriptions in a pipeline",
        "
        +SET <0> v
        +GET <0>
        +x2 SUBSCRIBE a b
        +x2 UNSUBSCRIBE a b
        GET <0>
    ",
    ),
    case(
        "sharded channels",
        "
        SSUBSCRIBE shard
        b: SPUBLISH shard x
        read
        b: PUBLISH shard unheard
        b: PUBSUB SHARDCHANNELS
        SUNSUBSCRIBE shard
        PUBSUB SHARDNUMSUB shard
    ",
    ),
    case(
        "errors",
        "
        SUBSCRIBE
        PSUBSCRIBE
        PUBLISH a
        PUBLISH a b c
        PUBSUB
        PUBSUB NOPE
        MULTI
        PUBLISH a b
        EXEC
    ",
    ),
];
