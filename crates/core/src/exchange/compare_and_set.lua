-- keyfold: run the writes if the reads still answer as they did. TIME must not be later than the milliseconds that are
-- expected after "+", and must be later than those after ">", as other numbers must be greater.
-- ARGV: the number of checks; each check: a command, then its expected reply ("-" absent, "+" and the
-- reply otherwise); then the writes, each a command. A command: its number of arguments, then those. That one is published
-- or not changes nothing about what was written.
local at = 2
local function run(call)
  local count = tonumber(ARGV[at])
  at = at + count + 1
  return call(unpack(ARGV, at - count, at - 1))
end
for _ = 1, tonumber(ARGV[1]) do
  local found = run(redis.pcall)
  local expected = ARGV[at]
  if type(found) == 'table' then
    -- Another type lies there by now: that is a change like any other.
    if found.err and not string.find(found.err, 'WRONGTYPE', 1, true) then return found end
    local now_ms = found[2] and found[1] * 1000 + math.floor(found[2] / 1000)
    if now_ms then
      local is_later = now_ms > tonumber(string.sub(expected, 2))
      if is_later ~= (string.sub(expected, 1, 1) == '>') then return 0 end
      expected = '-'
    end
    found = found.ok
  end
  if type(found) == 'number' then
    local number = tonumber(string.sub(expected, 2))
    if string.sub(expected, 1, 1) == '>' then
      if found <= number then return 0 end
    elseif found ~= number then
      return 0
    end
  elseif (found and '+' .. found or '-') ~= expected then
    return 0
  end
  at = at + 1
end
while at <= #ARGV do run(ARGV[at + 1] == 'PUBLISH' and redis.pcall or redis.call) end
return 1
