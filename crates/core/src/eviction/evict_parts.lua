-- keyfold: removes a set or hash that lies in parts, with all of these, if its field still holds what was read. Answers 1; 2 where they are so
-- many that the server is better left to remove them in steps; and 0 where the field holds something else.
-- KEYS: the bucket. ARGV: the field, what it held, what the names of its parts begin with, how many may be removed at once; then channels
-- and messages: what is published.
local bucket, field, base = KEYS[1], ARGV[1], ARGV[3]
if redis.call('HGET', bucket, field) ~= ARGV[2] then return 0 end
-- Before a cluster: while their slot is moved key by key some are at another node (crates/core/src/exchange/parts/parts.lua).
if string.byte(base, 2) == 123 then
  local found = redis.pcall('EXISTS', base .. '<', base .. '>')
  if type(found) == 'table' then return {err = 'TRYAGAIN keyfold: a large set or hash waits while its slot moves'} end
end
local names, answer = {base, base .. 'r'}, 1
for _, class in ipairs({'i', 't', 'o'}) do
  local directory = redis.call('GET', base .. class)
  if directory then names[#names + 1] = base .. class end
  for index = 0, directory and #directory - 1 or -1 do
    local depth = string.byte(directory, index + 1)
    if index < 2 ^ depth then names[#names + 1] = base .. class .. 2 ^ depth + index end
  end
end
redis.call('HDEL', bucket, field)
if #names > tonumber(ARGV[4]) then names, answer = {}, 2 end
for from = 1, #names, 1000 do redis.call('UNLINK', unpack(names, from, math.min(from + 999, #names))) end
for at = 5, #ARGV, 2 do redis.call('PUBLISH', ARGV[at], ARGV[at + 1]) end
return answer
