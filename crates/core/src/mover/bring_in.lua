-- keyfold: brings keys of their own into buckets, at one moment. A key that isn't as simple as it is read here stays as it is;
-- answers their numbers, from 1.
-- KEYS: each bucket, with the keys behind it that come to lie there. ARGV: how long what is stored may be; for each bucket how
-- many keys it gets, and their fields.
local limit, left, number, name, arg = tonumber(ARGV[1]), {}, 0, 1, 2
-- Integers are stored in fewer bytes than they have digits.
local longest = math.max(limit, 20)
while name <= #KEYS do
  local bucket, count = KEYS[name], tonumber(ARGV[arg])
  local held = redis.pcall('HMGET', bucket, unpack(ARGV, arg + 1, arg + count))
  local writes, gone = {}, {}
  for index = 1, count do
    number = number + 1
    local key, stored = KEYS[name + index], false
    local at = redis.call('PEXPIRETIME', key)
    if at > -2 and not held.err and not held[index] then
      -- Of a long one no more than shows that it is.
      local value = redis.pcall('GETRANGE', key, 0, longest)
      if type(value) == 'string' and #value <= longest then
        if at == -1 then
          stored = framed(value)
        elseif at > 1577836800000 and at < 2677348427776 then
          stored = framed(value, struct.pack('>I5', at - 1577836800000))
        end
      end
    end
    if stored and #stored <= limit then
      writes[#writes + 1], writes[#writes + 2], gone[#gone + 1] = ARGV[arg + index], stored, key
    else
      left[#left + 1] = number
    end
  end
  if #gone > 0 then
    redis.call('HSET', bucket, unpack(writes))
    redis.call('UNLINK', unpack(gone))
  end
  name, arg = name + count + 1, arg + count + 1
end
return left
