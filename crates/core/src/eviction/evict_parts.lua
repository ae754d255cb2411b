-- keyfold: removes a set or hash that lies in parts, if its field still holds what was read, and so many of its parts; in another call what is
-- left of them. Answers 0 where the field holds something else; else how far in the directories of its parts it has come, and how far they
-- go: from there on it is called again. What is in no directory is removed at the end.
-- KEYS: the bucket. ARGV: the field, what it held, what the names of its parts begin with, how many may be removed at once, from where on, which
-- is 0 at first; when it is over, if that is why, else "-"; then channels and messages: what is published.
local bucket, field, base, most, from = KEYS[1], ARGV[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
-- Before a cluster: while their slot is moved key by key some are at another node (crates/core/src/exchange/parts/parts.lua).
if string.byte(base, 2) == 123 then
  local found = redis.pcall('EXISTS', base .. '<', base .. '>')
  if type(found) == 'table' then return {err = 'TRYAGAIN keyfold: a large set or hash waits while its slot moves'} end
end
-- Who may not remove them learns it before anything is. A full server takes all that is written behind it.
redis.call('UNLINK', base .. '?')
if from == 0 then
  if redis.call('HGET', bucket, field) ~= ARGV[2] then return 0 end
  local time = redis.call('TIME')
  if ARGV[6] ~= '-' and time[1] * 1000 + math.floor(time[2] / 1000) <= tonumber(ARGV[6]) then return 0 end
elseif redis.call('GET', base) ~= '' then
  -- The sweep has removed them.
  return {from, from}
end
local reached, ends, names = from, 0, {}
for _, class in ipairs({'i', 't', 'o'}) do
  local directory = redis.call('GET', base .. class) or ''
  local begins = ends
  ends = ends + #directory
  while reached < ends and #names < most do
    local index = reached - begins
    local depth = string.byte(directory, index + 1)
    if index < 2 ^ depth then names[#names + 1] = base .. class .. 2 ^ depth + index end
    reached = reached + 1
  end
end
if from == 0 then redis.call('HDEL', bucket, field) end
if reached == ends then
  for _, rest in ipairs({'r', 'i', 't', 'o', ''}) do names[#names + 1] = base .. rest end
elseif from == 0 then
  -- They are nobody's: where nobody calls again, the sweep finds them.
  redis.call('SET', base, '')
end
for at = 1, #names, 1000 do redis.call('UNLINK', unpack(names, at, math.min(at + 999, #names))) end
for at = 7, #ARGV, 2 do redis.pcall('PUBLISH', ARGV[at], ARGV[at + 1]) end
return {reached, ends}
