-- The reverse of `unpacked`: the packed form of members, or of names with their values. What has no value is left out.
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
local function packed(kind, names, values)
  local out, integers = {kind == 'hash' and 'B' or '@'}, kind == 'set' and {}
  for _, name in ipairs(names) do
    local value = values[name]
    if value then
      out[#out + 1] = packed_text(name)
      if kind == 'hash' then out[#out + 1] = packed_text(value) end
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
