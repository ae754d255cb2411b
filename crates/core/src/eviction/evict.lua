-- keyfold: from each bucket remove the fields that still hold what was read. Answers how many went from each.
-- KEYS: the buckets. ARGV: for each bucket the number of its fields; then each field with what it held.
local at, gone = 1, {}
for number, bucket in ipairs(KEYS) do
  local count = tonumber(ARGV[at])
  local fields, leaving = {}, {}
  for nth = 1, count do fields[nth] = ARGV[at + 2 * nth - 1] end
  -- Another type may lie there by now.
  local held = redis.pcall('HMGET', bucket, unpack(fields))
  for nth = 1, count do
    if held[nth] == ARGV[at + 2 * nth] then leaving[#leaving + 1] = fields[nth] end
  end
  gone[number] = #leaving > 0 and redis.call('HDEL', bucket, unpack(leaving)) or 0
  at = at + 2 * count + 1
end
return gone
