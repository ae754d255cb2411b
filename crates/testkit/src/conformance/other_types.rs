//! Commands of lists, hashes, sets, sorted sets and streams on string keys and absent ones; blocking
//! commands and scripts, on keys that are not folded.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "other types' commands on a string",
        r#"
        MSET <0> v <1> "\x00" <2> <v*100>
        LPUSH <0> a
        RPUSH <1> a
        LPUSHX <2> a
        LPOP <0>
        RPOP <1> 2
        LLEN <2>
        LRANGE <0> 0 -1
        LINDEX <0> 0
        LSET <0> 0 x
        LREM <0> 0 x
        LTRIM <0> 0 1
        LINSERT <0> BEFORE a b
        LPOS <0> a
        LMOVE <0> list LEFT RIGHT
        RPOPLPUSH <0> list
        LMPOP 1 <0> LEFT
        HSET <0> f v
        HGET <0> f
        HGETALL <1>
        HDEL <2> f
        HLEN <0>
        HKEYS <0>
        HVALS <0>
        HMGET <0> f g
        HINCRBY <0> f 1
        HEXISTS <0> f
        HSCAN <0> 0
        HRANDFIELD <0>
        HSTRLEN <0> f
        HSETNX <0> f v
        SADD <0> a
        SREM <0> a
        SMEMBERS <0>
        SISMEMBER <0> a
        SCARD <0>
        SPOP <0>
        SRANDMEMBER <0>
        SUNION <0> set
        SINTER set <0>
        SINTERCARD 1 <0>
        SSCAN <0> 0
        ZADD <0> 1 a
        ZREM <0> a
        ZRANGE <0> 0 -1
        ZSCORE <0> a
        ZCARD <0>
        ZINCRBY <0> 1 a
        ZRANK <0> a
        ZCOUNT <0> 0 1
        ZPOPMIN <0>
        ZUNION 1 <0>
        ZSCAN <0> 0
        XADD <0> * f v
        XLEN <0>
        XRANGE <0> - +
        XREAD STREAMS <0> 0
        XDEL <0> 0-1
        XINFO STREAM <0>
        GEOADD <0> 13 38 p
        GEOPOS <0> p
        PFADD <0> a
        PFCOUNT <0>
        SORT <0>
        SORT_RO <0>
        BLPOP <0> 0.01
        BLMOVE <0> list LEFT RIGHT 0.01
        BZPOPMIN <0> 0.01
        MGET <0> <1> <2>
    "#,
    ),
    case(
        "other types' commands that read an absent key",
        "
        LPUSHX <0> a
        LPOP <0>
        LPOP <0> 2
        LLEN <0>
        LRANGE <0> 0 -1
        LINDEX <0> 0
        LSET <0> 0 x
        LREM <0> 0 x
        LTRIM <0> 0 1
        LPOS <0> a
        LMPOP 1 <0> LEFT
        HGET <0> f
        HGETALL <0>
        HDEL <0> f
        HLEN <0>
        HKEYS <0>
        HMGET <0> f g
        HEXISTS <0> f
        HSCAN <0> 0
        HRANDFIELD <0>
        HRANDFIELD <0> 2
        SREM <0> a
        SMEMBERS <0>
        SISMEMBER <0> a
        SMISMEMBER <0> a b
        SCARD <0>
        SPOP <0>
        SPOP <0> 2
        SRANDMEMBER <0>
        SINTERCARD 1 <0>
        SSCAN <0> 0
        ZREM <0> a
        ZRANGE <0> 0 -1
        ZRANGE <0> 0 -1 WITHSCORES
        ZSCORE <0> a
        ZMSCORE <0> a b
        ZCARD <0>
        ZRANK <0> a
        ZPOPMIN <0>
        ZSCAN <0> 0
        XLEN <0>
        XRANGE <0> - +
        XREAD STREAMS <0> 0
        XDEL <0> 0-1
        XINFO STREAM <0>
        GEOPOS <0> p
        PFCOUNT <0>
        SORT <0>
        SORT_RO <0>
        LPUSH <0>
        HSET <0> f
        ZADD <0> x
        EXISTS <0>
    ",
    ),
    case(
        "SORT beside folded keys",
        "
        RPUSH list 2 1 3
        MSET w_1 30 w_2 20 w_3 10
        SORT list BY w_* GET # GET w_*
        SORT list BY <0>
        SORT list GET <0>
        SORT_RO list BY w_* GET <0> LIMIT 0 2
        SORT list STORE sorted
        SORT <0> STORE sorted
        EXISTS sorted
        SORT <0> BY w_* GET #
        SET <0> 5
        SORT <0>
        SORT_RO <0> BY nosort
        SORT <0> BY w_* GET # STORE sorted
        SORT list STORE sorted DESC
        LRANGE sorted 0 -1
        GET <0>
    ",
    ),
    case(
        "HyperLogLogs and geographies beside folded keys",
        "
        SET <0> text
        PFADD <0>
        PFADD <0> a
        PFCOUNT <0>
        PFCOUNT <1>
        PFADD hll x y
        PFCOUNT <1> hll
        PFCOUNT hll <0>
        PFMERGE hll <1>
        PFMERGE hll <0>
        PFMERGE <0> hll
        PFMERGE merged <1> hll
        PFCOUNT hll merged
        GEOADD <0> 13 38 p
        GEOPOS <0> p
        GEOHASH <0> p
        GEODIST <0> p q
        GEOSEARCH <0> FROMLONLAT 1 1 BYRADIUS 1 m
        GEORADIUS <0> 1 1 1 m
        GEORADIUS_RO <0> 1 1 1 m
        GEORADIUSBYMEMBER <0> p 1 m
        GEORADIUS <0> 1 1 1 m STORE near
        GEOSEARCHSTORE near <0> FROMLONLAT 1 1 BYRADIUS 1 m
        GEOPOS <1> p
        GEOHASH <1> p
        GEODIST <1> p q
        GEOSEARCH <1> FROMLONLAT 1 1 BYRADIUS 1 m
        GEORADIUS <1> 1 1 1 m
        GEOADD near 13 38 p
        GEORADIUS <1> 1 1 1 m STORE near
        EXISTS near
        GEOSEARCHSTORE near <1> FROMLONLAT 1 1 BYRADIUS 1 m
        GET <0>
        EXISTS <1>
    ",
    ),
    case(
        "string commands on other types",
        "
        RPUSH list a
        HSET hash f v
        SADD set a
        ZADD zset 1 a
        XADD stream 1-1 f v
        GET list
        GET hash
        INCR set
        APPEND zset x
        STRLEN stream
        GETRANGE hash 0 1
        MGET list hash set <0>
        TYPE list
        TYPE hash
        TYPE set
        TYPE zset
        TYPE stream
        HGET hash f
        LRANGE list 0 -1
        HGETALL hash
        SMEMBERS set
        ZRANGE zset 0 -1 WITHSCORES
        XRANGE stream - +
        SET list v
        GET list
        DEL hash set zset stream
    ",
    ),
    case(
        "blocking commands",
        "
        BLPOP list 0.01
        BRPOP list list2 0.01
        RPUSH list a b
        BLPOP list 1
        BRPOP list 1
        BLMOVE list list2 LEFT RIGHT 0.01
        BRPOPLPUSH list list2 0.01
        BLMPOP 0.01 1 list LEFT
        BZPOPMIN zset 0.01
        BZMPOP 0.01 1 zset MIN
        XREAD BLOCK 10 STREAMS stream 0
        x0 BLPOP list list2 10
        b: SET <0> meanwhile
        b: RPUSH list2 woken
        read
        GET <0>
        x0 +BRPOP list 10
        +GET <0>
        b: GET <0>
        b: LPUSH list one
        x1 PING
        read
        BLPOP list
        BLPOP list abc
        BLPOP list -1
        MULTI
        BLPOP list 0
        GET <0>
        EXEC
        WAIT 0 10
    ",
    ),
    case(
        "scripts on plain keys",
        r#"
        SET plain:s v
        EVAL "return redis.call('GET', KEYS[1])" 1 plain:s
        EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 plain:s w
        GET plain:s
        EVAL "return {1, 'two', {3}, false, 4.9}" 0
        EVAL "return redis.error_reply('MY own')" 0
        EVAL "return redis.status_reply('FINE')" 0
        EVAL "return redis.call('INCR', KEYS[1])" 1 plain:s
        EVAL "return redis.pcall('NOPE')" 0
        EVAL "syntax error here" 0
        EVAL "return 1"
        EVAL "return 1" x
        EVAL "return 1" -1
        EVAL "return 1" 2 plain:s
        EVAL_RO "return redis.call('GET', KEYS[1])" 1 plain:s
        EVAL_RO "return redis.call('SET', KEYS[1], 'x')" 1 plain:s
        SCRIPT LOAD "return ARGV[1]"
        EVALSHA <last> 0 hello
        EVALSHA 0000000000000000000000000000000000000000 0
        SCRIPT EXISTS <last> 0000000000000000000000000000000000000000
        EVAL "redis.setresp(3); return {map={a=1}}" 0
        EVAL "redis.setresp(3); return {double=3.5}" 0
    "#,
    ),
];
