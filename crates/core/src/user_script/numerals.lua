-- The digits of a number to another base, the highest first.
local function rebased(digits, from, to)
  local out = {}
  while digits[1] do
    local rest, quotient = 0, {}
    for _, digit in ipairs(digits) do
      rest = rest * from + digit
      local part = math.floor(rest / to)
      rest = rest - part * to
      if part > 0 or quotient[1] then quotient[#quotient + 1] = part end
    end
    table.insert(out, 1, rest)
    digits = quotient
  end
  return out
end
-- The decimal form of an integer in two's complement.
local function decimal(bytes)
  if #bytes < 7 then
    -- Lua has it exactly.
    local number = string.byte(bytes)
    if number > 127 then number = number - 256 end
    for at = 2, #bytes do number = number * 256 + string.byte(bytes, at) end
    return string.format('%.0f', number)
  end
  local digits, sign = {string.byte(bytes, 1, -1)}, ''
  if digits[1] > 127 then
    sign = '-'
    for at = 1, #digits do digits[at] = 255 - digits[at] end
    local at = #digits
    while at > 0 and digits[at] == 255 do
      digits[at] = 0
      at = at - 1
    end
    if at == 0 then table.insert(digits, 1, 1) else digits[at] = digits[at] + 1 end
  end
  return sign .. table.concat(rebased(digits, 256, 10))
end
-- The name under which a key's value is spilled: what such names begin with, the nonce to base 62, and the key.
local function spill_name(head, key, nonce)
  local digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  local name = rebased({string.byte(nonce, 1, 8)}, 256, 62)
  for at = 1, #name do name[at] = string.sub(digits, name[at] + 1, name[at] + 1) end
  while name[2] and name[1] == '0' do table.remove(name, 1) end
  return head .. table.concat(name) .. ':' .. key
end
