-- keyfold: about how many bytes of a set or hash in parts aren't told by its header: its outliers, by some parts of these, and what lies in
-- no part yet.
-- KEYS: what the names of its parts begin with.
local base, parts, asked, bytes = KEYS[1], 0, 0, 0
local directory = redis.call('GET', base .. 'o') or ''
for index = 0, #directory - 1 do
  local depth = string.byte(directory, index + 1)
  if index < 2 ^ depth then
    parts = parts + 1
    if asked < 8 then
      asked = asked + 1
      bytes = bytes + (redis.call('MEMORY', 'USAGE', base .. 'o' .. 2 ^ depth + index) or 0)
    end
  end
end
if asked > 0 then bytes = math.floor(bytes / asked * parts) end
return bytes + (redis.call('MEMORY', 'USAGE', base .. 'r') or 0)
