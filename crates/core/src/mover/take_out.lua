-- keyfold: takes keys out of buckets, under their own names again, at one moment. A key that isn't as simple as it is read
-- here stays as it is; answers their numbers, from 1. Frames: crates/core/src/frame.rs.
-- KEYS: each bucket, with the names behind it that its keys come to have. ARGV: for each bucket how many these are, and their
-- fields.
local time, left, number, name, arg = redis.call('TIME'), {}, 0, 1, 1
local now = time[1] * 1000 + math.floor(time[2] / 1000)
while name <= #KEYS do
  local bucket, count = KEYS[name], tonumber(ARGV[arg])
  local fields = redis.pcall('HMGET', bucket, unpack(ARGV, arg + 1, arg + count))
  local gone = {}
  for index = 1, count do
    number = number + 1
    local key, value, at = KEYS[name + index], fields[index], nil
    local tag = value and string.byte(value)
    if tag == 0 then
      value = string.sub(value, 2)
    elseif tag == 1 and #value > 5 or tag == 5 and #value > 6 and #value < 13 then
      at = struct.unpack('>I5', value, 2) + 1577836800000
      value = at > now and (tag == 1 and string.sub(value, 7) or string.format('%.0f', struct.unpack('>i' .. #value - 6, value, 7)))
    elseif tag and tag < 32 then
      value = false
    end
    local is_out = value and (at and redis.call('SET', key, value, 'PXAT', at, 'NX') or not at and redis.call('SET', key, value, 'NX'))
    if is_out then
      gone[#gone + 1] = ARGV[arg + index]
    else
      left[#left + 1] = number
    end
  end
  if #gone > 0 then redis.call('HDEL', bucket, unpack(gone)) end
  name, arg = name + count + 1, arg + count + 1
end
return left
