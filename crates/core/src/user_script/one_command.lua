-- keyfold: a command of a transaction on keys that a script of the same transaction uses too. ARGV: the command.
local reply = redis.pcall(unpack(ARGV))
if type(reply) ~= 'number' or reply < 9007199254740992 and reply > -9007199254740992 then return reply end
-- Lua may not have such a number exactly. What has been counted is read once more, as text.
local name = string.upper(ARGV[1])
if name == 'INCR' or name == 'DECR' or name == 'INCRBY' or name == 'DECRBY' then
  return redis.status_reply('exactly ' .. redis.call('GET', KEYS[1]))
end
if name == 'HINCRBY' then return redis.status_reply('exactly ' .. redis.call('HGET', KEYS[1], ARGV[3])) end
return redis.error_reply('ERR keyfold: the answer is a number that a script can\'t give exactly; send the command outside of the transaction')
