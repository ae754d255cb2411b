-- keyfold: a command on one field of a bucket, at one moment. What isn't as simple as it is read here is left as it is and
-- answered by "?"; whoever sent the command works it out then. Frames: crates/core/src/frame.rs.
-- KEYS: the bucket. ARGV: the field, how long what is stored there may be, and what the command needs.
local stored = redis.call('HGET', KEYS[1], ARGV[1])
-- The value, false where there is none; the five bytes that say when it expires; its number, where it is stored as one.
local value, expiry, number = stored, nil, nil
local tag = stored and string.byte(stored)
if tag and tag < 32 then
  if (tag == 1 and #stored > 5) or (tag == 5 and #stored > 6 and #stored < 13) then
    local time = redis.call('TIME')
    -- From the next millisecond on it is over.
    if struct.unpack('>I5', stored, 2) + 1577836800001 <= time[1] * 1000 + time[2] / 1000 then
      value = false
    else
      expiry = string.sub(stored, 2, 6)
      if tag == 1 then
        value = string.sub(stored, 7)
      else
        -- Of up to six bytes, which Lua has exactly.
        number = struct.unpack('>i' .. #stored - 6, stored, 7)
      end
    end
  elseif tag == 0 then
    value = string.sub(stored, 2)
  else
    return {ok = '?'}
  end
end
-- The number that a text is the one decimal form of; true where Lua might not have it exactly.
local function number_of(text)
  local found = tonumber(text)
  if not found or text == '-0' then return false end
  if not (found < 1e15 and found > -1e15) then return true end
  return string.format('%.0f', found) == text and found
end
-- Stores a value, or the text of a number; false where that doesn't fit.
local function write(text, at, integer)
  if at then
    integer = integer or number_of(text)
    if integer == true then return false end
    if integer then
      local size, half = 1, 128
      while size < 7 and (integer < -half or integer >= half) do size, half = size + 1, half * 256 end
      text = '\5' .. at .. struct.pack('>i' .. size, integer)
    else
      text = '\1' .. at .. text
    end
  elseif text ~= '' and string.byte(text) < 32 then
    text = '\0' .. text
  end
  if #text > tonumber(ARGV[2]) then return false end
  redis.call('HSET', KEYS[1], ARGV[1], text)
  return true
end
