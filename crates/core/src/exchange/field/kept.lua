-- What is stored in a form that is none of these, as a codec wrote it or as the header of parts, has its expiry in the same bytes:
-- EXPIRE needs no more. `kept` is then its tag, and `value` what stands behind the expiry, which nothing else may go by. A long value
-- of its own may have been evicted, which isn't seen here.
local kept
local is_header = unsure and tag >= 8 and tag < 10 and #stored == (tag == 8 and 1 or 6) + 8 + 34
if unsure and (is_header or tag >= 12 and tag % 4 < 2 and #stored > 8) and argv[at] == 'EXPIRE' then
  if tag % 4 == 0 then
    kept, value, unsure = tag, string.sub(stored, 2), false
  else
    time, unsure = time or call('TIME'), false
    -- From the next millisecond on it is over.
    if struct.unpack('>I5', stored, 2) + 1577836800001 <= time[1] * 1000 + time[2] / 1000 then
      value = false
    else
      kept, expiry, value = tag - 1, string.sub(stored, 2, 6), string.sub(stored, 7)
    end
  end
end
