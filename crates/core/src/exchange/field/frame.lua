-- Reads a field as a frame (crates/core/src/frame.rs): `call`, `bucket`, `field` and `time` are there.
local stored = call('HGET', bucket, field)
-- The value, false where there is none; the five bytes that say when it expires; its number, where it is stored as one, and
-- `value` says then only that it is there; whether it is anything else than can be read here.
local value, expiry, number, unsure = stored, nil, nil, false
local tag = stored and string.byte(stored)
if tag and tag < 32 then
  if (tag == 1 and #stored > 5) or (tag == 5 and #stored > 6 and #stored < 13) then
    time = time or call('TIME')
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
    unsure = true
  end
end
