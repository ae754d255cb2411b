-- keyfold: a key of its own with all that it holds: its type; its expiry, by the command ARGV[1]; a string's value, or of a set
-- or hash its payload, by which it is known again, and its members; and where ARGV[2] is 1, when each field expires. Of one that
-- has more than ARGV[3] members only how many they are. The payload is read last: where a table is being enlarged, each look at a
-- field moves some others on in its order, and with that in the payload.
-- Times are texts: a number of Lua's above 2^53 would come as another integer.
local function text(time) return string.format('%.0f', time) end
local kind = redis.call('TYPE', KEYS[1]).ok
local found = {kind, text(redis.call(ARGV[1], KEYS[1]))}
local size = {set = 'SCARD', hash = 'HLEN'}
if size[kind] then
  found[3] = redis.call(size[kind], KEYS[1])
  if found[3] > tonumber(ARGV[3]) then return found end
end
if kind == 'string' then
  found[3] = redis.call('GET', KEYS[1])
elseif kind == 'set' then
  found[4] = redis.call('SMEMBERS', KEYS[1])
elseif kind == 'hash' then
  local fields = redis.call('HGETALL', KEYS[1])
  found[4], found[5] = fields, {}
  for first = 1, ARGV[2] == '1' and #fields or 0, 2000 do
    local names = {}
    for at = first, math.min(first + 1998, #fields - 1), 2 do names[#names + 1] = fields[at] end
    for _, at in ipairs(redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', #names, unpack(names))) do
      found[5][#found[5] + 1] = text(at)
    end
  end
end
if size[kind] then found[3] = redis.call('DUMP', KEYS[1]) end
return found
