-- keyfold: FLUSHDB or FLUSHALL that leaves keyfold's own keys. KEYS: the layout, its copy and the dictionaries, in
-- database 0. ARGV: the command.
redis.call('SELECT', '0')
local layout, copy = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
local dictionaries = redis.call('HGETALL', KEYS[3])
redis.call(unpack(ARGV))
if layout then redis.call('SET', KEYS[1], layout) end
if copy then redis.call('SET', KEYS[2], copy) end
for at = 1, #dictionaries, 2 do redis.call('HSET', KEYS[3], dictionaries[at], dictionaries[at + 1]) end
return redis.status_reply('OK')
