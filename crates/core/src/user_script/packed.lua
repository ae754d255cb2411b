-- The reverse of `unpacked`: the packed form of members, or of names with their values and when they expire. What has no value is left
-- out.
local function packed_text(text)
  local bytes = integer_bytes(text)
  if bytes then
    local first = string.byte(bytes)
    return #bytes == 1 and first < 48 and string.char(208 + first) or string.char(191 + #bytes) .. bytes
  end
  if #text < 192 then return string.char(#text) .. text end
  if #text < 65536 then return '\200' .. struct.pack('>I2', #text) .. text end
  return '\201' .. struct.pack('>I4', #text) .. text
end
local function packed_number(high, low)
  local bytes = {}
  repeat
    local part = low % 128
    low = math.floor(low / 128) + high % 128 * 33554432
    high = math.floor(high / 128)
    local has_more = high > 0 or low > 0
    bytes[#bytes + 1] = string.char(has_more and part + 128 or part)
  until not has_more
  return table.concat(bytes)
end
local function packed(kind, names, values, expiries)
  local out, integers, expires = {kind == 'hash' and 'B' or '@'}, kind == 'set' and {}, false
  for name in pairs(expiries) do expires = expires or values[name] end
  if expires then out[1] = 'C' end
  for _, name in ipairs(names) do
    local value = values[name]
    if value then
      out[#out + 1] = packed_text(name)
      if kind == 'hash' then out[#out + 1] = packed_text(value) end
      if expires then
        local number = (expiries[name] or -1) + 1
        out[#out + 1] = packed_number(math.floor(number / 4294967296), number % 4294967296)
      end
      if integers then
        local high, low = halves(name)
        if high then integers[#integers + 1] = {high, low, out[#out]} else integers = nil end
      end
    end
  end
  if not integers then return table.concat(out) end
  table.sort(integers, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
  out = {'A', integers[1] and integers[1][3]}
  for at = 2, #integers do
    local high, low = integers[at][1] - integers[at - 1][1], integers[at][2] - integers[at - 1][2]
    if low < 0 then high, low = high - 1, low + 4294967296 end
    out[at + 1] = packed_number(high, low)
  end
  return table.concat(out)
end
-- A packed hash as it is stored, and when its frame expires (`Collection::stored`): with the last of its fields, where all of them do
-- and the key doesn't.
local function passing(packed, expires_at)
  local head = string.byte(packed)
  if head ~= 67 and head ~= 68 or expires_at then return head == 68 and 'C' .. string.sub(packed, 2) or packed, expires_at end
  local names, _, expiries = unpacked(packed)
  local last = 0
  for _, name in ipairs(names) do last = expiries[name] and last and math.max(last, expiries[name]) end
  return (last and 'D' or 'C') .. string.sub(packed, 2), last or nil
end
