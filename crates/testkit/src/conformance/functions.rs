//! Libraries of functions on keys of every kind. A server keeps its libraries when it is emptied: each case loads its own, in place of
//! what is there, and deletes it.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "a library and its functions",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=counters\nlocal STEP = 2\n\nlocal function count(keys, args)\n  local sum = redis.call('INCRBY', keys[1], STEP)\n  redis.call('SET', keys[2], sum .. ':' .. (args[1] or 'none'))\n  return {sum, #keys, #args, keys[2], redis.call('GET', keys[2])}\nend\n\nredis.register_function('count', count)\nredis.register_function{function_name = 'Look', callback = function(keys) return redis.call('MGET', unpack(keys)) end, flags = {'no-writes'}, description = 'what there is'}"
        FCALL count 2 <0> <1> x
        FCALL COUNT 2 <0> <0>
        FCALL count 2 <1> <0> x y
        FCALL_RO look 3 <0> <1> <2>
        FCALL Look 1 <0>
        GET <0>
        FCALL count 2 <0> <1> x
        SET plain 7
        FCALL count 2 plain <1> x
        MGET plain <1>
        FCALL count 2 <2> <3>
        FUNCTION LIST LIBRARYNAME nobody
        FUNCTION DELETE counters
        FCALL count 2 <0> <1> x
        FCALL_RO look 1 <0>
        MGET <0> <1> <2> <3>
    "##,
    ),
    case(
        "errors inside functions",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=failing\nlocal function deep(key)\n  return redis.call('INCR', key)\nend\nredis.register_function('wrong', function(keys)\n  redis.call('SET', keys[1], 'text')\n  return deep(keys[1])\nend)\nredis.register_function('boom', function() error('boom') end)\nredis.register_function('beyond', function() error('boom', 2) end)\nredis.register_function('table', function() error({err = 'MY own'}) end)\nredis.register_function('reply', function() return redis.error_reply('MY own') end)\nredis.register_function('caught', function(keys)\n  local ok, why = pcall(redis.call, 'LPUSH', keys[1])\n  local other, line = pcall(function() error('here') end)\n  return {tostring(ok), type(why) == 'table' and why.err or why, tostring(other), line}\nend)\nredis.register_function('passed', function(keys) return redis.pcall('INCR', keys[1]) end)\nredis.register_function('global', function() unknown_global = 1 end)\nredis.register_function('lacking', function() return unknown_global end)\nredis.register_function('late', function() redis.register_function('x', function() end) end)\nredis.register_function('nil', function(keys)\n\n  local x = nil\n  return x.y end)\nredis.register_function('refused', function(keys) return redis.call('SUBSCRIBE', keys[1]) end)"
        FCALL wrong 1 <0>
        GET <0>
        FCALL boom 1 <0>
        FCALL beyond 1 <0>
        FCALL table 1 <0>
        FCALL reply 1 <0>
        FCALL caught 1 <0>
        FCALL passed 1 <0>
        FCALL global 1 <0>
        FCALL lacking 1 <0>
        FCALL late 1 <0>
        FCALL nil 1 <0>
        FCALL refused 1 <0>
        FCALL nobody 1 <0>
        FCALL_RO nobody 1 <0>
        FCALL wrong 2 <0>
        FCALL wrong -1 <0>
        FCALL wrong x <0>
        FCALL wrong
        FUNCTION DELETE failing
    "##,
    ),
    case(
        "flags of functions",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=flagged\nlocal function get(keys) return redis.call('GET', keys[1]) end\nlocal function set(keys, args) return redis.call('SET', keys[1], args[1]) end\nredis.register_function{function_name = 'get_only', callback = get, flags = {'no-writes', 'allow-stale'}}\nredis.register_function{function_name = 'set_only', callback = set, flags = {'no-writes'}}\nredis.register_function{function_name = 'get_any', callback = get, flags = {}}\nredis.register_function{function_name = 'set_any', callback = set, flags = {'allow-oom'}}"
        FCALL set_any 1 <0> x
        FCALL get_any 1 <0>
        FCALL get_only 1 <0>
        FCALL_RO get_only 1 <0>
        FCALL_RO get_any 1 <0>
        FCALL_RO set_any 1 <0> y
        FCALL set_only 1 <0> y
        FCALL_RO set_only 1 <0> y
        FCALL_RO get_only 1 <1>
        GET <0>
        FUNCTION DELETE flagged
    "##,
    ),
    case(
        "a library that is replaced",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=replaced\nredis.register_function('which', function(keys) return redis.call('APPEND', keys[1], '1') end)"
        FCALL which 1 <0>
        FUNCTION LOAD "#!lua name=replaced\nredis.register_function('which', function(keys) return redis.call('APPEND', keys[1], '22') end)"
        FCALL which 1 <0>
        b: FUNCTION LOAD REPLACE "#!lua name=replaced\nredis.register_function('which', function(keys) return redis.call('APPEND', keys[1], '22') end)"
        FCALL which 1 <0>
        GET <0>
        FUNCTION LOAD REPLACE "#!lua name=replaced\nredis.register_function('other', function(keys) return 1 end)"
        FCALL which 1 <0>
        FCALL other 1 <0>
        FUNCTION LOAD REPLACE "#!lua name=replaced\nsyntax error"
        FUNCTION LOAD REPLACE "#!lua name=replaced\nredis.call('GET', 'x')"
        FCALL other 1 <0>
        b: FUNCTION DELETE replaced
        FCALL other 1 <0>
        FUNCTION DELETE replaced
    "##,
    ),
    case(
        "functions in transactions",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=queued\nredis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)\nredis.register_function{function_name = 'look', callback = function(keys) return redis.call('GET', keys[1]) end, flags = {'no-writes'}}"
        MULTI
        SET <0> 5
        FCALL add 1 <0> 3
        INCR <0>
        FCALL add 1 <1> 2
        FCALL_RO look 1 <0>
        FCALL add 1 plain 4
        FCALL nobody 1 <0>
        FCALL add 1 <0> x
        GET <0>
        EXEC
        MGET <0> <1> plain
        WATCH <0>
        b: SET <0> other
        MULTI
        FCALL add 1 <0> 3
        EXEC
        GET <0>
        MULTI
        FCALL add 1
        FCALL add 1 <0>
        EXEC
        MULTI
        FCALL_RO look 1 <0>
        EXEC
        FUNCTION DELETE queued
        MULTI
        FCALL_RO look 1 <0>
        EXEC
    "##,
    ),
    case(
        "what a function finds",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=finds\nlocal at_load = redis\nlocal version = redis.REDIS_VERSION\nredis.register_function('types', function(keys, args, more)\n  keys[#keys + 1], args[1] = 'more', nil\n  return {type(redis.call), type(redis.register_function), type(redis.setresp), tostring(more), tostring(version == redis.REDIS_VERSION), #keys, #args, redis.sha1hex('')}\nend)\nredis.register_function('then', function(keys) return at_load.REDIS_VERSION == version and 1 or 0 end)\nredis.register_function('three', function(keys)\n  redis.setresp(3)\n  return {type(redis.call('GET', keys[1])), redis.call('SET', keys[1], 12)}\nend)\nredis.register_function('many', function(keys) return 1, 2 end)\nredis.register_function('nothing', function(keys) end)\nredis.register_function('values', function() return {1, 'two', {3}, 4.9, false, redis.status_reply('FINE')} end)\nredis.register_function('other_keys', function(keys) local i = 0 for _, key in ipairs(keys) do i = i + redis.call('EXISTS', key) end return i end)\n--[[ ends in a comment ]] return -- without a line behind"
        FCALL types 1 <0> x
        FCALL then 1 <0>
        FCALL three 1 <0>
        FCALL three 1 <0>
        FCALL many 1 <0>
        FCALL nothing 1 <0>
        FCALL values 1 <0>
        RPUSH list x
        FCALL other_keys 4 <0> list <1> nobody
        HELLO 3
        FCALL values 1 <0>
        FCALL nothing 1 <0>
        FCALL three 1 <0>
        FUNCTION DELETE finds
    "##,
    ),
    case(
        "a lock and a rate limit as functions",
        r##"
        FUNCTION LOAD REPLACE "#!lua name=guards\nlocal function free(keys, args)\n  if redis.call('GET', keys[1]) ~= args[1] then return 0 end\n  return redis.call('DEL', keys[1])\nend\nlocal function take(keys, args)\n  return redis.call('SET', keys[1], args[1], 'NX', 'PX', args[2])\nend\nlocal function allow(keys, args)\n  local used = redis.call('INCR', keys[1])\n  if used == 1 then redis.call('EXPIRE', keys[1], args[2]) end\n  local left = redis.call('PTTL', keys[1])\n  return {used <= tonumber(args[1]) and 1 or 0, math.floor(left / 1000000 + 0.5)}\nend\nredis.register_function('lock_take', take)\nredis.register_function('lock_free', free)\nredis.register_function('limit_allow', allow)"
        FCALL lock_take 1 <0> mine 100000
        FCALL lock_take 1 <0> theirs 100000
        FCALL lock_free 1 <0> theirs
        FCALL lock_free 1 <0> mine
        FCALL lock_free 1 <0> mine
        EXISTS <0>
        FCALL limit_allow 1 <1> 2 1000
        FCALL limit_allow 1 <1> 2 1000
        FCALL limit_allow 1 <1> 2 1000
        GET <1>
        TTL <1>
        FUNCTION DELETE guards
    "##,
    ),
];
