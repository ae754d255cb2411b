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
