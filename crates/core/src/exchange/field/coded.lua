-- What is stored in another form than those, of which `stored`, `tag`, `unsure` are there. A hash that a codec wrote by a vocabulary
-- (crates/core/src/collection/vocabulary.rs) is read where it is the codec that the call names, by its tag: `coded` is that, and `value` an E
-- and the payload. Else EXPIRE needs no more than the expiry, which is in the same bytes, of what another codec wrote and of the header of parts:
-- `kept` is the tag, and `value` what stands behind the expiry, which nothing else may go by. A long value of its own may have been
-- evicted, which isn't seen here.
local coded, kept
if unsure and tag % 4 < 2 then
  local from, has_expired = tag % 4 == 0 and 2 or 7, false
  local expires = argv[at] == 'EXPIRE'
  local names_codec = argv[at] == 'MEMBERS' and argv[at + 4] or expires and argv[at + 5]
  local is_named = tag >= 16 and names_codec and tonumber(names_codec) == tag - tag % 4 and (from == 2 or #stored > 5)
  local is_header = tag >= 8 and tag < 10 and #stored == from - 1 + 8 + 34
  if is_named or expires and (is_header or tag >= 12 and #stored > 8) then
    unsure = false
    if from == 7 then
      time = time or call('TIME')
      -- From the next millisecond on it is over.
      has_expired = struct.unpack('>I5', stored, 2) + 1577836800001 <= time[1] * 1000 + time[2] / 1000
    end
    if has_expired then
      value = false
    else
      if from == 7 then expiry = string.sub(stored, 2, 6) end
      value = string.sub(stored, from)
      if is_named then coded, value = tag - tag % 4, 'E' .. value else kept = tag - tag % 4 end
    end
  end
end
