-- keyfold: FLUSHDB or FLUSHALL that leaves keyfold's own keys. KEYS: the layout, the leases and the dictionaries, in
-- database 0. ARGV: the command.
redis.call('SELECT', '0')
local layout, leases = redis.call('GET', KEYS[1]), redis.call('HGETALL', KEYS[2])
local dictionaries = redis.call('HGETALL', KEYS[3])
redis.call(unpack(ARGV))
if layout then redis.call('SET', KEYS[1], layout) end
if #leases > 0 then redis.call('HSET', KEYS[2], unpack(leases)) end
if #dictionaries > 0 then redis.call('HSET', KEYS[3], unpack(dictionaries)) end
return redis.status_reply('OK')
