-- The number that a text is the one decimal form of; true where Lua might not have it exactly.
local function number_of(text)
  local found = tonumber(text)
  if not found or text == '-0' then return false end
  if not (found < 1e15 and found > -1e15) then return true end
  return string.format('%.0f', found) == text and found
end
-- What is stored for a text that expires at this time, in five bytes, or never; false where Lua might not have its number
-- exactly. `integer` is the number, where that is known.
local function framed(text, at, integer)
  if at then
    integer = integer or number_of(text)
    if integer == true then return false end
    if not integer then return '\1' .. at .. text end
    local size, half = 1, 128
    while size < 7 and (integer < -half or integer >= half) do size, half = size + 1, half * 256 end
    return '\5' .. at .. struct.pack('>i' .. size, integer)
  end
  return text ~= '' and string.byte(text) < 32 and '\0' .. text or text
end
-- Stores a value, or the text of a number; false where that doesn't fit.
local function write(text, at, integer)
  text = framed(text, at, integer)
  if not text or #text > tonumber(ARGV[2]) then return false end
  redis.call('HSET', KEYS[1], ARGV[1], text)
  return true
end
