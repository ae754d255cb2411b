-- keyfold: a command on a set or hash under its own name that has many members, which the server carries out itself. Where it hasn't,
-- as another client has moved it meanwhile, or changed it, nothing is done and "?" answered.
-- KEYS: its name. ARGV: the command that counts its members; how many are not yet many; the command.
-- All of it is by RESP2: by RESP3 an array would end for Lua where there is nothing in it.
local members = redis.pcall(ARGV[1], KEYS[1])
if type(members) ~= 'number' or members <= tonumber(ARGV[2]) then return {ok = '?'} end
local reply = redis.pcall(unpack(ARGV, 3))
if type(reply) ~= 'number' or reply < 9007199254740992 and reply > -9007199254740992 then return reply end
-- Lua may not have such a number exactly. What has been counted is read once more, as text.
if string.upper(ARGV[3]) == 'HINCRBY' then return {ok = 'exactly ' .. redis.call('HGET', KEYS[1], ARGV[5])} end
return reply
