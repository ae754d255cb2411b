-- Packed texts and numbers (crates/core/src/collection/packed.rs), as they stand behind each other.

-- Where the text ends that begins there; nil where there is none.
local function text_end(packed, from)
  local head = string.byte(packed, from)
  local to
  if not head then return nil end
  if head < 192 then
    to = from + head
  elseif head >= 208 then
    to = from
  elseif head < 200 then
    to = from + head - 191
  elseif head == 200 and #packed >= from + 2 then
    to = from + 2 + struct.unpack('>I2', packed, from + 1)
  elseif head == 202 then
    to = from + 1
  elseif head == 203 and #packed > from then
    to = from + 1 + string.byte(packed, from + 1)
  elseif head == 204 then
    to = from + 4
  elseif head == 205 then
    to = from + 16
  end
  return to and to <= #packed and to
end

-- The number that begins behind `to`, and where its bytes end; false where it can't be read exactly.
local function number_behind(packed, to)
  local number, weight, byte = 0, 1, nil
  repeat
    to = to + 1
    byte = string.byte(packed, to)
    if not byte or weight > 1e15 then return false end
    number, weight = number + byte % 128 * weight, weight * 128
  until byte < 128
  return number < 2 ^ 53 and number, to
end
