-- The nonce of the spilled value that a frame points to, whether a codec wrote that, and whether it is no value but parts.
local function pointed(stored)
  local tag = string.byte(stored)
  if not tag or tag < 8 or tag > 10 then return nil end
  local from = tag == 8 and 2 or tag == 9 and 7 or 10
  return string.sub(stored, from, from + 7), #stored == from + 8, #stored > from + 8
end
