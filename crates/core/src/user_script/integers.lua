-- The reverse of `decimal`, in as few bytes as it takes; nothing for what is no integer of eight bytes in its one decimal form.
local function integer_bytes(text)
  if text == '0' then return '\0' end
  local sign, tail = string.match(text, '^(%-?)([1-9]%d*)$')
  if not tail or #tail > 19 then return nil end
  if #tail < 15 then
    local number, bytes = tonumber(text), ''
    repeat
      local byte = number % 256
      number, bytes = math.floor(number / 256), string.char(byte) .. bytes
    until number == 0 and byte < 128 or number == -1 and byte > 127
    return bytes
  end
  local digits = {}
  for digit in string.gmatch(tail, '%d') do digits[#digits + 1] = tonumber(digit) end
  if sign == '-' then
    local at = #digits
    while digits[at] == 0 do
      digits[at] = 9
      at = at - 1
    end
    digits[at] = digits[at] - 1
  end
  local bytes = rebased(digits, 10, 256)
  while bytes[2] and bytes[1] == 0 do table.remove(bytes, 1) end
  if bytes[1] > 127 then table.insert(bytes, 1, 0) end
  if #bytes > 8 then return nil end
  for at = 1, #bytes do bytes[at] = string.char(sign == '-' and 255 - bytes[at] or bytes[at]) end
  return table.concat(bytes)
end
-- An integer as two halves of 32 bits, the higher one with the sign; nothing for what is none.
local function halves(text)
  local bytes = integer_bytes(text)
  if not bytes then return nil end
  return struct.unpack('>i4I4', string.rep(string.byte(bytes) > 127 and '\255' or '\0', 8 - #bytes) .. bytes)
end
local function decimal_of_halves(high, low)
  if high > -2097152 and high < 2097152 then return string.format('%.0f', high * 4294967296 + low) end
  return decimal(struct.pack('>i4I4', high, low))
end
