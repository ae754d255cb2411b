//! What libraries send that keep locks, limits, counters and caches, as scripts and as commands: what is answered, what the keys
//! hold afterwards, and how long they live, to a hundred seconds. The scripts are written anew; they ask the server for what the
//! libraries' do.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "Spring's RedisLockRegistry",
        r#"
        SCRIPT LOAD "local holder = redis.call('GET', KEYS[1])\nif holder == ARGV[1] then\n  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n  return true\nelseif not holder then\n  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n  return true\nend\nreturn false"
        EVALSHA <last> 1 <0> me 100000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        EVALSHA <last> 1 <0> me 300000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        EVALSHA <last> 1 <0> you 500000
        EVALSHA <last> 1 <1> you 500000
        MGET <0> <1>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        PERSIST <1>
        EVALSHA <last> 1 <1> you 200000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <1>
        SCRIPT LOAD "if redis.call('GET', KEYS[1]) == ARGV[1] then\n  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n  return true\nend\nreturn false"
        EVALSHA <last> 1 <0> me 700000
        EVALSHA <last> 1 <0> you 900000
        EVALSHA <last> 1 <2> me 900000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        EXISTS <2>
        b: SUBSCRIBE unlocked
        SCRIPT LOAD "if redis.call('GET', KEYS[1]) == ARGV[1] then\n  redis.call('UNLINK', KEYS[1])\n  redis.call('PUBLISH', ARGV[2], KEYS[1])\n  return true\nend\nreturn false"
        EVALSHA <last> 1 <0> you unlocked
        EVALSHA <last> 1 <0> me unlocked
        b: read
        EVALSHA <last> 1 <0> me unlocked
        EXISTS <0> <1>
    "#,
    ),
    case(
        "bucket4j's compare and swap of bytes",
        r#"
        SCRIPT LOAD "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 else return 0 end"
        EVALSHA <last> 1 <0> "\x00\x00\x00\x01\x7f\xff\x80" 100000
        EVALSHA <last> 1 <0> "other" 200000
        GET <0>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        SCRIPT LOAD "if redis.call('get', KEYS[1]) == ARGV[1] then\n  redis.call('psetex', KEYS[1], ARGV[3], ARGV[2])\n  return 1\nelse\n  return 0\nend"
        EVALSHA <last> 1 <0> "\x00\x00\x00\x01\x7f\xff" "\x01" 500000
        EVALSHA <last> 1 <0> "\x00\x00\x00\x01\x7f\xff\x80" "\x05\r\n\xfe\x00" 500000
        EVALSHA <last> 1 <0> "\x00\x00\x00\x01\x7f\xff\x80" "x" 600000
        GET <0>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        EVALSHA <last> 1 <0> "\x05\r\n\xfe\x00" "" 700000
        GET <0>
        EVALSHA <last> 1 <0> "" <b*300> 800000
        EVALSHA <last> 1 <0> <b*300> "\x1f" 300000
        GET <0>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        SCRIPT LOAD "if redis.call('set', KEYS[1], ARGV[1], 'nx') then return 1 else return 0 end"
        EVALSHA <last> 1 <1> "\x1f\x1e"
        EVALSHA <last> 1 <1> "x"
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <1>
        SCRIPT LOAD "if redis.call('get', KEYS[1]) == ARGV[1] then\n  redis.call('set', KEYS[1], ARGV[2])\n  return 1\nend\nreturn 0"
        EVALSHA <last> 1 <0> "\x1f" "kept"
        EVALSHA <last> 1 <1> "\x1f\x1e" "12"
        MGET <0> <1>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        INCR <1>
    "#,
    ),
    case(
        "django-redis: counters, versions, locks",
        r#"
        SCRIPT LOAD "local there = redis.call('EXISTS', KEYS[1])\nif there == 1 then\n  return redis.call('INCRBY', KEYS[1], ARGV[1])\nelse\n  return false\nend"
        EVALSHA <last> 1 <0> 1
        EXISTS <0>
        SET <0> 10 PX 100000
        EVALSHA <last> 1 <0> 5
        EVALSHA <last> 1 <0> -20
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        SET <1> 9223372036854775806
        EVALSHA <last> 1 <1> 1
        EVALSHA <last> 1 <1> 1
        SET <1> pickled
        EVALSHA <last> 1 <1> 1
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        GET <0>
        SET <2> -5 PX 100000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        DEL <0>
        SET <3> "\x80\x05K\x01." NX PX 100000
        SET <3> other NX PX 100000
        GET <3>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <3>
        PEXPIRE <3> 200000
        PERSIST <3>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <3>
        EXPIREAT <3> 4000000000
        EXPIRETIME <3>
        SET <3> none PX 0
        MGET <0> <1> <2> <3>
    "#,
    ),
    case(
        "Rails' cache: counters and entries",
        r#"
        +INCRBY <0> 1
        +EXPIRE <0> 100 NX
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        +INCRBY <0> 5
        +EXPIRE <0> 300 NX
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        DECRBY <0> 7
        GET <0>
        INCRBY <1> 1
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <1>
        EXPIRE <1> 100
        SET <2> "\x00\x11\x04\x08entry" NX PX 200000
        SET <2> "\x04\x08other" NX PX 200000
        SET <2> "\x04\x08other" PX 200000
        INCRBY <2> 1
        MGET <2> <3> <1>
        +SET <3> a PX 100000
        +SET <4> "\x00\x01b" PX 100000
        MGET <3> <4>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <4>
        UNLINK <2> <3> <4> <5>
        EXISTS <0> <1> <2> <3> <4>
    "#,
    ),
    case(
        "node's redlock: several keys, extended and given back",
        r#"
        SCRIPT LOAD "for i, key in ipairs(KEYS) do\n  if redis.call('exists', key) == 1 then return 0 end\nend\nfor i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end\nreturn #KEYS"
        EVALSHA <last> 3 <0> plain:red <1> me 100000
        EVALSHA <last> 2 <2> plain:red you 100000
        EVALSHA <last> 1 <2> you 200000
        MGET <0> plain:red <1> <2>
        SCRIPT LOAD "for i, key in ipairs(KEYS) do\n  if redis.call('get', key) ~= ARGV[1] then return 0 end\nend\nfor i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end\nreturn #KEYS"
        EVALSHA <last> 3 <0> plain:red <1> me 500000
        EVALSHA <last> 2 <0> <2> me 900000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 plain:red
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <1>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <2>
        SCRIPT LOAD "local freed = 0\nfor i, key in ipairs(KEYS) do\n  if redis.call('get', key) == ARGV[1] then\n    redis.pcall('del', key)\n    freed = freed + 1\n  end\nend\nreturn freed"
        EVALSHA <last> 4 <0> <2> plain:red <1> me
        MGET <0> plain:red <1> <2>
        EVALSHA <last> 4 <0> <2> plain:red <1> me
    "#,
    ),
    case(
        "rate-limiter-flexible: with and without a time",
        r#"
        SCRIPT LOAD "redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')\nlocal used = redis.call('incrby', KEYS[1], ARGV[1])\nlocal left = redis.call('pttl', KEYS[1])\nif left == -1 then\n  redis.call('expire', KEYS[1], ARGV[2])\n  left = 1000 * ARGV[2]\nend\nreturn {used, math.floor(left / 100000 + 0.5)}"
        EVALSHA <last> 1 <0> 3 1000 5 1000
        EVALSHA <last> 1 <0> 9223372036854775804 1000 5 1000
        EVALSHA <last> 1 <0> 1 1000 5 1000
        EVALSHA <last> 1 <0> -9223372036854775807 1000 5 1000
        SET <0> 7
        EVALSHA <last> 1 <0> 1 2000 5 1000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        SET <0> text
        EVALSHA <last> 1 <0> 1 2000 5 1000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <0>
        EVALSHA <last> 1 <1> 1 0 5 1000
        EXISTS <1>
        MULTI
        INCRBY <1> 2
        PTTL <1>
        EXEC
        MULTI
        SET <1> 4 EX 300
        GET <1>
        EXEC
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <1>
        MULTI
        GET <2>
        PTTL <2>
        EXEC
        DEL <1>
    "#,
    ),
    case(
        "jobs: a lock beside queues",
        r#"
        SCRIPT LOAD "local holder = redis.call('get', KEYS[1])\nif holder and holder ~= ARGV[1] then return holder end\nredis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])\nredis.call('lpush', KEYS[2], ARGV[1])\nredis.call('zadd', KEYS[3], ARGV[3], KEYS[1])\nreturn false"
        EVALSHA <last> 3 <0> jobs:queue jobs:digests job-1 100000 5
        EVALSHA <last> 3 <0> jobs:queue jobs:digests job-2 100000 6
        EVALSHA <last> 3 <1> jobs:queue jobs:digests job-2 200000 7
        LRANGE jobs:queue 0 -1
        ZRANGE jobs:digests 0 -1 WITHSCORES
        SCRIPT LOAD "local found = redis.call('zrangebyscore', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, 10)\nlocal freed = 0\nfor _, name in ipairs(found) do\n  if name == KEYS[1] then\n    freed = freed + redis.call('unlink', KEYS[1])\n    redis.call('zrem', KEYS[2], name)\n  end\nend\nreturn {freed, #found, redis.call('zcard', KEYS[2])}"
        EVALSHA <last> 2 <0> jobs:digests 6
        EVALSHA <last> 2 <0> jobs:digests 6
        EXISTS <0> <1>
        SCRIPT LOAD "local used = tonumber(redis.call('get', KEYS[1]) or '0')\nif used >= tonumber(ARGV[1]) then return redis.call('ttl', KEYS[1]) > 0 and -1 or -2 end\nused = redis.call('incr', KEYS[1])\nif used == 1 then redis.call('expire', KEYS[1], ARGV[2]) end\nreturn used"
        EVALSHA <last> 1 <2> 2 1000
        EVALSHA <last> 1 <2> 2 1000
        EVALSHA <last> 1 <2> 2 1000
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <2>
        PERSIST <2>
        EVALSHA <last> 1 <2> 2 1000
    "#,
    ),
    case(
        "Sidekiq: jobs that are due, and counters of what was done",
        r#"
        EVALSHA 0123456789012345678901234567890123456789 1 plain:schedule 100
        ZADD plain:schedule 50 "{\"jid\":\"a\"}" 60 "{\"jid\":\"b\"}" 200 "{\"jid\":\"c\"}"
        SCRIPT LOAD "local key, now = KEYS[1], ARGV[1]\nlocal due = redis.call('zrange', key, '-inf', now, 'byscore', 'limit', 0, 1)\nif due[1] then\n  redis.call('zrem', key, due[1])\n  return due[1]\nend"
        EVALSHA <last> 1 plain:schedule 100
        EVALSHA <last> 1 plain:schedule 100
        EVALSHA <last> 1 plain:schedule 100
        ZCARD plain:schedule
        MULTI
        SADD plain:queues default
        LPUSH plain:queue:default "{\"jid\":\"a\"}" "{\"jid\":\"b\"}"
        EXEC
        RPOP plain:queue:default
        +MULTI
        +INCRBY <0> 2
        +INCRBY <1> 2
        +INCRBY <2> 1
        +EXPIRE <1> 200000
        +HSET plain:process busy 1
        EXEC
        SCRIPT LOAD "local done = redis.call('incrby', KEYS[1], ARGV[1])\nredis.call('lpush', KEYS[2], done)\nredis.call('ltrim', KEYS[2], 0, 1)\nreturn redis.call('mget', KEYS[1], KEYS[3])"
        +EVALSHA <last> 3 <0> plain:done <2> 5
        +EVALSHA <last> 3 <0> plain:done <2> 1
        EVALSHA <last> 3 <0> plain:done <3> 1
        LRANGE plain:done 0 -1
        MGET <0> <1> <2> <3>
        EVAL "local left = redis.call('TTL', KEYS[1])\nreturn left > 0 and math.floor(left / 100 + 0.5) or left" 1 <1>
        +MULTI
        +SET <4> "{\"jid\":\"a\"}" NX EX 300000
        +SET <4> "{\"jid\":\"b\"}" NX EX 300000
        +GET <4>
        EXEC
    "#,
    ),
];
