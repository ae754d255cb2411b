-- keyfold: FLUSHDB or FLUSHALL that leaves keyfold's own keys. KEYS: those, in database 0. ARGV: the command.
local kept = {}
redis.call('SELECT', '0')
for index, key in ipairs(KEYS) do kept[index] = redis.call('GET', key) end
redis.call(unpack(ARGV))
for index, key in ipairs(KEYS) do
  if kept[index] then redis.call('SET', key, kept[index]) end
end
return redis.status_reply('OK')
