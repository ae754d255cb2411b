-- Reads a hash that a codec wrote by a vocabulary (crates/core/src/collection/vocabulary.rs), where it is the codec that the call
-- names, by its tag: `stored`, `tag`, `unsure` are there. `value` is then an E and the payload.
local coded
local names_codec = argv[at] == 'MEMBERS' and argv[at + 4] or argv[at] == 'EXPIRE' and argv[at + 5]
if unsure and tag >= 16 and names_codec and tonumber(names_codec) == tag - tag % 4 then
  if tag % 4 == 0 then
    coded, value, unsure = tag, 'E' .. string.sub(stored, 2), false
  elseif tag % 4 == 1 and #stored > 5 then
    time, unsure = time or call('TIME'), false
    -- From the next millisecond on it is over.
    if struct.unpack('>I5', stored, 2) + 1577836800001 <= time[1] * 1000 + time[2] / 1000 then
      value = false
    else
      coded, expiry, value = tag - 1, string.sub(stored, 2, 6), 'E' .. string.sub(stored, 7)
    end
  end
end
