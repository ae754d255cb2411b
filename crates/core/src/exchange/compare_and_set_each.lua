-- keyfold: for each group, run its writes if its reads still answer as they did. Answers the numbers of the
-- groups, from 1, that were left alone because one of them did not.
-- ARGV: each group: the number of its checks and of its writes; then checks and writes as in compare_and_set.lua.
local at = 1
local function run(call)
  local count = tonumber(ARGV[at])
  at = at + count + 1
  return call(unpack(ARGV, at - count, at - 1))
end
local function skip() at = at + tonumber(ARGV[at]) + 1 end
local function holds(found, expected)
  if type(found) == 'table' then
    local now_ms = found[2] and found[1] * 1000 + math.floor(found[2] / 1000)
    if now_ms then
      return (now_ms > tonumber(string.sub(expected, 2))) == (string.sub(expected, 1, 1) == '>')
    end
    found = found.ok
  end
  if type(found) == 'number' then
    local number = tonumber(string.sub(expected, 2))
    if string.sub(expected, 1, 1) == '>' then return found > number end
    return found == number
  end
  return (found and '+' .. found or '-') == expected
end
local changed, group = {}, 0
while at <= #ARGV do
  group = group + 1
  local checks, writes = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  at = at + 2
  local unchanged = true
  for _ = 1, checks do
    if unchanged then unchanged = holds(run(redis.pcall), ARGV[at]) else skip() end
    at = at + 1
  end
  if not unchanged then changed[#changed + 1] = group end
  for _ = 1, writes do
    if not unchanged then skip() else run(ARGV[at + 1] == 'PUBLISH' and redis.pcall or redis.call) end
  end
end
return changed
