-- keyfold: a command on a set or hash under its own name that has many members, which the server carries out itself. Where it hasn't,
-- as another client has moved it meanwhile, or changed it, nothing is done and "?" answered.
-- KEYS: its name. ARGV: the command that counts its members; how many are not yet many; the client's protocol; the command.
local members = redis.pcall(ARGV[1], KEYS[1])
if type(members) ~= 'number' or members <= tonumber(ARGV[2]) then return {ok = '?'} end
if ARGV[3] == '3' then redis.setresp(3) end
return redis.pcall(unpack(ARGV, 4))
