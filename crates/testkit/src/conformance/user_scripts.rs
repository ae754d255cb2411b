//! Scripts on keys of every kind: locks and rate limits as client libraries have them, and what commands, errors and hashes
//! come to inside a script.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "a lock that only its owner gives back",
        r#"
        SET <0> mine NX PX 100000
        SET <0> theirs NX PX 100000
        SCRIPT LOAD "local holder = redis.call('get', KEYS[1])\nif holder ~= ARGV[1] then\n  return 0\nend\nredis.call('del', KEYS[1])\nreturn 1"
        EVALSHA <last> 1 <0> theirs
        EVALSHA <last> 1 <1> mine
        EVALSHA <last> 1 <0> mine
        EVALSHA <last> 1 <0> mine
        EXISTS <0>
        SET <0> mine NX PX 100000
        SCRIPT LOAD "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end\nlocal left = redis.call('pttl', KEYS[1])\nif not left or left < 0 then return 0 end\nif ARGV[3] == '0' then left = left + ARGV[2] else left = ARGV[2] end\nredis.call('pexpire', KEYS[1], left)\nreturn 1"
        EVALSHA <last> 1 <0> theirs 50000 0
        EVALSHA <last> 1 <0> mine 50000 0
        TTL <0>
        EVALSHA <last> 1 <0> mine 70000 1
        TTL <0>
        PERSIST <0>
        EVALSHA <last> 1 <0> mine 70000 1
    "#,
    ),
    case(
        "a lock on several keys at once",
        r#"
        SCRIPT LOAD "for _, name in ipairs(KEYS) do\n  if redis.call('exists', name) == 1 then return 0 end\nend\nfor _, name in ipairs(KEYS) do\n  redis.call('set', name, ARGV[1], 'px', ARGV[2])\nend\nreturn #KEYS"
        EVALSHA <last> 3 <0> <1> <2> mine 100000
        EVALSHA <last> 2 <2> <3> theirs 100000
        MGET <0> <1> <2> <3>
        TTL <2>
        SCRIPT LOAD "local freed = 0\nfor _, name in ipairs(KEYS) do\n  if redis.call('get', name) == ARGV[1] then freed = freed + redis.call('del', name) end\nend\nreturn freed"
        EVALSHA <last> 2 <2> <3> mine
        EVALSHA <last> 3 <0> <1> <2> mine
        EXISTS <0> <1> <2> <3>
    "#,
    ),
    case(
        "rate limits",
        r#"
        SCRIPT LOAD "redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')\nlocal used = redis.call('incrby', KEYS[1], ARGV[1])\nlocal left = redis.call('pttl', KEYS[1])\nif left == -1 then\n  redis.call('expire', KEYS[1], ARGV[2])\n  left = 1000 * ARGV[2]\nend\nreturn {used, math.floor(left / 1000000 + 0.5)}"
        EVALSHA <last> 1 <0> 1 1000
        EVALSHA <last> 1 <0> 5 1000
        GET <0>
        PERSIST <0>
        EVALSHA <last> 1 <0> 1 2000
        TTL <0>
        SCRIPT LOAD "local by = tonumber(ARGV[2])\nlocal sum = redis.call('incrby', KEYS[1], by)\nif tonumber(sum) == by then redis.call('expire', KEYS[1], ARGV[1]) end\nreturn sum"
        EVALSHA <last> 1 <1> 1000 2
        EVALSHA <last> 1 <1> 1000 2
        TTL <1>
        EVAL "local now, before = tonumber(redis.call('get', KEYS[1]) or 0), tonumber(redis.call('get', KEYS[2]) or 0)\nlocal weighted = math.floor(before * tonumber(ARGV[2])) + now\nif weighted >= tonumber(ARGV[1]) then return 0 end\nredis.call('incr', KEYS[1])\nredis.call('expire', KEYS[1], 2 * ARGV[3])\nreturn 1" 2 <2> <0> 10 0.5 1000
        EVAL "local now, before = tonumber(redis.call('get', KEYS[1]) or 0), tonumber(redis.call('get', KEYS[2]) or 0)\nlocal weighted = math.floor(before * tonumber(ARGV[2])) + now\nif weighted >= tonumber(ARGV[1]) then return 0 end\nredis.call('incr', KEYS[1])\nredis.call('expire', KEYS[1], 2 * ARGV[3])\nreturn 1" 2 <2> <0> 4 0.5 1000
        MGET <0> <1> <2>
        TTL <2>
    "#,
    ),
    case(
        "what a script is given and what it gives",
        r#"
        EVAL "return {KEYS[1], KEYS[2], #KEYS, ARGV[1], #ARGV}" 2 <0> <1> x
        EVAL "return {#KEYS, #ARGV, unpack(ARGV)}" 3 <0> <0> <1>
        EVAL "KEYS[1], ARGV[2] = ARGV[1], 'more'\nreturn {KEYS[1], ARGV[1], ARGV[2], #ARGV}" 1 <0> x
        EVAL "return {1, 'two', {3}, 4.9, false, redis.status_reply('FINE'), redis.sha1hex('')}" 1 <0>
        EVAL "return redis.error_reply('MY own')" 1 <0>
        EVAL "return redis.status_reply('FINE')" 1 <0>
        EVAL "return redis.call('SET', KEYS[1], 12)" 1 <0>
        EVAL "return redis.call('SET', KEYS[1], -0.5)" 1 <0>
        EVAL "return redis.pcall('GETRANGE', KEYS[1], -0, -1)" 1 <0>
        EVAL_RO "return redis.pcall('GETRANGE', KEYS[1], -0, -1)" 1 <0>
        EVAL_RO "return redis.pcall('GETRANGE', KEYS[1], 0, -0)" 1 <0>
        EVAL "return {redis.call('GET', KEYS[1]), redis.call('get', KEYS[2])}" 2 <0> <1>
        EVAL "return redis.call('INCRBYFLOAT', KEYS[1], 3)" 1 <0>
        EVAL "return {type(redis.call('GET', KEYS[1])), type(redis.call('GET', KEYS[2])), type(redis.call('TYPE', KEYS[1])), type(redis.call('TTL', KEYS[1]))}" 2 <0> <1>
        EVAL "redis.setresp(3)\nreturn {type(redis.call('GET', KEYS[2])), type(redis.call('SET', KEYS[1], 'x', 'NX'))}" 2 <0> <1>
        EVAL "redis.log(redis.LOG_DEBUG, KEYS[1]) return cjson.encode({redis.call('STRLEN', KEYS[1])})" 1 <0>
        EVAL "local other = redis\nlocal call = other.call\ncall('DEL', KEYS[1])\nreturn call('EXISTS', KEYS[1])" 1 <0>
        EVAL "" 1 <0>
        EVAL "return" 1 <0>
    "#,
    ),
    case(
        "errors inside scripts",
        r#"
        SET <0> text
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        EVAL "local one = 1\n\nreturn redis.call('INCR', KEYS[1])" 1 <0>
        EVAL "local function f()\n  return redis.call('INCR', KEYS[1])\nend\nf()\nreturn 1" 1 <0>
        EVAL "local call = redis.call\nif true then\n  return call('INCR', KEYS[1]) end" 1 <0>
        EVAL "return redis.pcall('INCR', KEYS[1])" 1 <0>
        EVAL "return redis.pcall('INCR', KEYS[1])['err']" 1 <0>
        EVAL "local ok, why = pcall(redis.call, 'INCR', KEYS[1])\nreturn {tostring(ok), why}" 1 <0>
        EVAL "local ok, why = pcall(redis.call, 'INCR', KEYS[1])\nerror(why)" 1 <0>
        EVAL "redis.call('SET', KEYS[1], 'y', 'EX', 'z')" 1 <0>
        EVAL "redis.call('SET', KEYS[1], 'y', 'EX', 0)" 1 <0>
        EVAL "redis.call('SET', KEYS[1])" 1 <0>
        EVAL "redis.call('EXPIRE', KEYS[1], 10, 'XX', 'NX')" 1 <0>
        EVAL "redis.call('LPUSH', KEYS[1], 'x')" 1 <0>
        EVAL "redis.call('HGET', KEYS[1], 'x')" 1 <0>
        EVAL "redis.call('NOPE', KEYS[1])" 1 <0>
        EVAL "redis.call('SUBSCRIBE', KEYS[1])" 1 <0>
        EVAL "redis.call()" 1 <0>
        EVAL "redis.call({}, KEYS[1])" 1 <0>
        EVAL "redis.call('SET', KEYS[1], {})" 1 <0>
        EVAL "redis.call('SET', KEYS[1], nil)" 1 <0>
        EVAL "redis.call('GET', nil)" 1 <0>
        EVAL "\nlocal x = nil\nreturn x.y" 1 <0>
        EVAL "syntax error here" 1 <0>
        EVAL "return 'open" 1 <0>
        EVAL "return redis.call('GET', KEYS[1]" 1 <0>
        EVAL "unknown_global = 1" 1 <0>
        EVAL "error('mine')" 1 <0>
        EVAL "error({err = 'MINE too'})" 1 <0>
        GET <0>
    "#,
    ),
    case(
        "a script that failed half-way has done what it did before",
        r#"
        EVAL "redis.call('SET', KEYS[1], 'x') redis.call('INCR', KEYS[2]) redis.call('INCR', KEYS[1]) redis.call('SET', KEYS[2], 'no')" 2 <0> <1>
        MGET <0> <1>
    "#,
    ),
    case(
        "values and times of every kind in a script",
        r#"
        EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 <0> <a*64>
        EVAL "return {redis.call('STRLEN', KEYS[1]), redis.call('GET', KEYS[1])}" 1 <0>
        EVAL "return redis.call('APPEND', KEYS[1], ARGV[1])" 1 <0> <b*64>
        EVAL "return {redis.call('STRLEN', KEYS[1]), redis.call('GETRANGE', KEYS[1], -3, -1)}" 1 <0>
        GET <0>
        EVAL "return redis.call('SET', KEYS[1], 'short', 'KEEPTTL')" 1 <0>
        GET <0>
        EVAL "return redis.call('SET', KEYS[1], ARGV[1], 'EX', 1000)" 1 <0> <a*300>
        TTL <0>
        EVAL "return redis.call('GETSET', KEYS[1], ARGV[1])" 1 <0> "\x00\x01\x02"
        GET <0>
        TTL <0>
        EVAL "return redis.call('SET', KEYS[1], 9223372036854775807)" 1 <0>
        EVAL "return redis.call('SET', KEYS[1], '9223372036854775806', 'PXAT', '4000000000000')" 1 <0>
        EVAL "return {redis.call('INCR', KEYS[1]), redis.call('GET', KEYS[1])}" 1 <0>
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        EVAL "return redis.call('EXPIRETIME', KEYS[1])" 1 <0>
        PEXPIRETIME <0>
        EVAL "return redis.call('DECRBY', KEYS[1], '9223372036854775806')" 1 <0>
        EVAL "return redis.call('EXPIREAT', KEYS[1], 2000000000)" 1 <0>
        EVAL "return {redis.call('INCR', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])}" 1 <0>
        EVAL "return {redis.call('PERSIST', KEYS[1]), redis.call('PERSIST', KEYS[1]), redis.call('TTL', KEYS[1])}" 1 <0>
        EVAL "return redis.call('EXPIRE', KEYS[1], -1)" 1 <0>
        EXISTS <0>
        EVAL "return {redis.call('SETNX', KEYS[1], 'a'), redis.call('SETNX', KEYS[1], 'b'), redis.call('GETDEL', KEYS[1])}" 1 <0>
        EVAL "redis.call('SET', KEYS[1], 'x', 'PX', 1)" 1 <0>
        ?until=:0 EVAL "return redis.call('EXISTS', KEYS[1])" 1 <0>
        EVAL "return {redis.call('EXISTS', KEYS[1]), redis.call('TTL', KEYS[1]), redis.call('INCR', KEYS[1])}" 1 <0>
    "#,
    ),
    case(
        "several keys and other types in a script",
        r#"
        RPUSH list:s a b
        EVAL "redis.call('MSET', KEYS[1], 1, KEYS[2], 'two', KEYS[3], ARGV[1])\nreturn redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])" 4 <0> <1> <2> list:s x
        EVAL "return {redis.call('MSETNX', KEYS[4], 1, KEYS[1], 2), redis.call('EXISTS', KEYS[1], KEYS[1], KEYS[4])}" 4 <0> <1> <2> <3>
        EVAL "redis.call('RENAME', KEYS[1], KEYS[2]) return redis.call('RENAMENX', KEYS[2], KEYS[3])" 3 <0> <1> <2>
        EVAL "return {redis.call('COPY', KEYS[2], KEYS[1]), redis.call('COPY', KEYS[2], KEYS[1]), redis.call('COPY', KEYS[3], KEYS[1], 'REPLACE')}" 3 <0> <1> <2>
        MGET <0> <1> <2> <3>
        EVAL "return {redis.call('BITOP', 'OR', KEYS[4], KEYS[1], KEYS[2]), redis.call('LCS', KEYS[1], KEYS[2]), redis.call('SETBIT', KEYS[3], 7, 1)}" 4 <0> <1> <2> <3>
        MGET <0> <1> <2> <3>
        EVAL "local moved = redis.call('LPOP', KEYS[2])\nredis.call('SET', KEYS[1], moved)\nredis.call('SADD', KEYS[3], KEYS[1])\nreturn {redis.call('SMEMBERS', KEYS[3]), redis.call('LRANGE', KEYS[2], 0, -1)}" 3 <0> list:s set:s
        EVAL "return redis.call('PUBLISH', KEYS[1], 'said')" 1 <0>
        EVAL "return {redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[1]), redis.call('EXISTS', KEYS[3])}" 4 <0> list:s set:s <1>
        EVAL "return redis.call('BITFIELD', KEYS[1], 'INCRBY', 'u8', 0, 300, 'GET', 'u4', 4)" 1 <0>
        EVAL "redis.call('PFADD', KEYS[2], 'a') return redis.call('PFCOUNT', KEYS[2])" 2 <0> hll:s
    "#,
    ),
    case(
        "scripts that only read",
        r##"
        SET <0> 5
        EVAL_RO "return {redis.call('GET', KEYS[1]), redis.call('TTL', KEYS[1]), redis.call('MGET', KEYS[1], KEYS[2])}" 2 <0> <1>
        EVAL_RO "return redis.call('INCR', KEYS[1])" 1 <0>
        EVAL_RO "return redis.call('SET', KEYS[1], 'x', 'NX')" 1 <0>
        EVAL_RO "return redis.call('DEL', KEYS[1])" 1 <1>
        EVAL "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])" 1 <0>
        EVAL "#!lua flags=no-writes\nlocal x\nreturn redis.call('INCR', KEYS[1])" 1 <0>
        EVAL "#!lua\nreturn redis.call('INCR', KEYS[1])" 1 <0>
        EVAL "#!lua" 1 <0>
        EVAL "#!lua flags=nonsense\nreturn 1" 1 <0>
        SCRIPT LOAD "return redis.call('STRLEN', KEYS[1])"
        EVALSHA_RO <last> 1 <0>
        SET <0> <a*65>
        EVALSHA_RO <last> 1 <0>
        EVAL_RO "return {redis.call('GET', KEYS[1]), redis.call('TYPE', KEYS[1]), redis.call('EXISTS', KEYS[1]), redis.call('TTL', KEYS[1])}" 1 <0>
    "##,
    ),
    case(
        "scripts by their hashes",
        r#"
        SCRIPT FLUSH
        EVALSHA 0000000000000000000000000000000000000000 1 <0>
        EVALSHA short 1 <0>
        SCRIPT LOAD "return redis.call('SET', KEYS[1], ARGV[1])"
        SCRIPT EXISTS <last> 0000000000000000000000000000000000000000
        EVALSHA <last> 1 <0> one
        EVALSHA <last> 1 plain:by-hash one
        SCRIPT FLUSH
        EVALSHA <last> 1 <0> two
        SCRIPT EXISTS <last>
        GET <0>
        EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 <0> three
        SCRIPT EXISTS <last>
        EVALSHA <last> 1 <1> four
        EVALSHA <last> 1 plain:by-hash five
        MGET <0> <1> plain:by-hash
        +EVAL "return redis.call('APPEND', KEYS[1], '1')" 1 <0>
        +APPEND <0> 2
        +EVAL "return redis.call('APPEND', KEYS[1], '3')" 1 <0>
        GET <0>
    "#,
    ),
    case(
        "scripts in a transaction",
        r#"
        SET <0> 5
        MULTI
        GET <0>
        EVAL "return redis.call('INCRBY', KEYS[1], ARGV[1])" 1 <0> 3
        GET <0>
        APPEND <0> 0
        EVAL "return {redis.call('GET', KEYS[1]), redis.call('SET', KEYS[2], ARGV[1]), redis.call('EXPIRE', KEYS[1], 100)}" 2 <0> <1> x
        TTL <0>
        MGET <0> <1> <2> plain:in-multi
        SET <2> worked-out
        LPUSH plain:list-in-multi <0>
        EXEC
        MGET <0> <1> <2>
        LRANGE plain:list-in-multi 0 -1
        MULTI
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        EXEC
        SCRIPT LOAD "return redis.call('DECRBY', KEYS[1], 2)"
        MULTI
        EVALSHA <last> 1 <0>
        EVALSHA <last> 1 <0>
        EVALSHA 0000000000000000000000000000000000000000 1 <0>
        EVALSHA_RO <last> 1 <0>
        SCRIPT FLUSH
        EVALSHA <last> 1 <0>
        EVAL "return redis.call('GET', KEYS[1])" 1 <0>
        EXEC
        GET <0>
    "#,
    ),
    case(
        "errors of scripts in a transaction stay in their place",
        r##"
        SET <0> text
        MULTI
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        EVAL "this is no script" 1 <0>
        EVAL "this is no script" 1 <0>
        EVAL "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 1)" 1 <0>
        EVAL "#!lua flags=nonsense\nreturn 1" 1 <0>
        EVAL "#!lua" 1 <0>
        EVAL "redis.call('SET', KEYS[1], 'written')\nerror('after that')" 1 <0>
        INCR <0>
        GET <0>
        EXEC
        GET <0>
        MULTI
        EVAL "return redis.call('SET', KEYS[1], 1)" x <0>
        EXEC
        MULTI
        EVAL "return 1" 2 <0>
        EXEC
        MULTI
        EVAL
        EXEC
        MULTI
        EVAL "return redis.call('SET', KEYS[1], 'never')" 1 <0>
        DISCARD
        GET <0>
    "##,
    ),
    case(
        "what Lua can't have exactly is exact beside a script",
        r#"
        SET <0> 9007199254740992
        SET <1> -9223372036854775807
        MULTI
        EVAL "return redis.call('GET', KEYS[1])" 2 <0> <1>
        INCR <0>
        INCRBY <0> 9007199254740993
        DECR <1>
        DECR <1>
        INCRBYFLOAT <0> 0.5
        EVAL "return redis.call('MGET', KEYS[1], KEYS[2])" 2 <0> <1>
        EXEC
        SET <2> ohmytext
        SET <3> mynewtext
        MULTI
        EVAL "return redis.call('STRLEN', KEYS[1])" 1 <2>
        LCS <2> <3>
        LCS <2> <3> LEN
        LCS <2> <3> IDX
        LCS <2> <3> IDX MINMATCHLEN 2 WITHMATCHLEN
        GETDEL <2>
        GET <2>
        TYPE <2>
        EXEC
    "#,
    ),
    case(
        "a watched key and scripts in a transaction",
        r#"
        SET <0> 1
        WATCH <0>
        MULTI
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        EXEC
        WATCH <0>
        b: SET <0> 7
        MULTI
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        EXEC
        GET <0>
        WATCH <0>
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        MULTI
        EVAL "return redis.call('INCR', KEYS[1])" 1 <0>
        GET <0>
        EXEC
        GET <0>
    "#,
    ),
];
