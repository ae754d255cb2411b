-- A packed set or hash (crates/core/src/collection/packed.rs draws it): its members or names in their order, of each `true`, or its
-- value, and of some when they expire. What has expired is left out; the last says whether anything has. Nothing where it can't be read.
local function unpacked(packed)
  local names, values, expiries, has_expired, at, head = {}, {}, {}, false, 2, string.byte(packed)
  local function add(name, value) names[#names + 1], values[name] = name, value end
  local function next_text()
    local first, from = string.byte(packed, at), at + 1
    if first > 207 then
      at = from
      return string.format('%d', first - 208)
    end
    local length = first
    if first > 201 then
      error('packed')
    elseif first > 199 then
      length, from = struct.unpack(first == 200 and '>I2' or '>I4', packed, from)
    elseif first > 191 then
      length = first - 191
    end
    at = from + length
    local text = string.sub(packed, from, at - 1)
    if #text < length then error('packed') end
    return first > 191 and first < 200 and decimal(text) or text
  end
  -- A number of seven bits a byte as two halves of 32 bits.
  local function next_number()
    local high, low = 0, 0
    for shift = 0, 63, 7 do
      local byte = string.byte(packed, at)
      local part = byte % 128
      at = at + 1
      if shift < 28 then
        low = low + part * 2 ^ shift
      elseif shift == 28 then
        low, high = low + part % 16 * 2 ^ 28, math.floor(part / 16)
      else
        high = high + part * 2 ^ (shift - 32)
      end
      if byte < 128 then return high, low end
    end
    error('packed')
  end
  local function read()
    if head == 64 then
      while at <= #packed do add(next_text(), true) end
    elseif head == 65 then
      local text = at <= #packed and next_text()
      if text then add(text, true) end
      local high, low
      if at <= #packed then high, low = halves(text) end
      while at <= #packed do
        local more_high, more_low = next_number()
        low = low + more_low
        high = high + more_high + math.floor(low / 4294967296)
        low = low % 4294967296
        add(decimal_of_halves(high, low), true)
      end
    elseif head == 66 then
      while at <= #packed do
        local name = next_text()
        add(name, next_text())
      end
    elseif head == 67 or head == 68 then
      local now = field_call('TIME')
      now = now[1] * 1000 + math.floor(now[2] / 1000)
      while at <= #packed do
        local name = next_text()
        local value = next_text()
        local high, low = next_number()
        local expires_at = high * 4294967296 + low - 1
        -- Beyond that Lua doesn't have it exactly.
        if expires_at >= 9007199254740991 then error('packed') end
        if expires_at == -1 then
          add(name, value)
        elseif expires_at >= now then
          add(name, value)
          expiries[name] = expires_at
        else
          has_expired = true
        end
      end
    else
      error('packed')
    end
  end
  if not pcall(read) then return nil end
  return names, values, expiries, has_expired
end
local has_field_expiry
-- Whether the server itself has fields that expire.
local function server_expires_fields()
  if has_field_expiry == nil then
    local known = real.pcall('COMMAND', 'INFO', 'HPEXPIREAT')
    has_field_expiry = type(known[1]) == 'table'
  end
  return has_field_expiry
end
-- Writes what was unpacked as a server has it, under this name; nothing where that succeeded, else the error. Where the server has no
-- fields that expire they stay without that.
local function fill(name, kind, names, values, expiries)
  local step = kind == 'set' and 1 or 2
  for from = 1, #names, 1000 do
    local words = {}
    for at = from, math.min(from + 999, #names) do
      words[#words + 1] = names[at]
      if step == 2 then words[#words + 1] = values[names[at]] end
    end
    local reply = real.pcall(kind == 'set' and 'SADD' or 'HSET', name, unpack(words))
    if type(reply) == 'table' and reply.err then return reply end
  end
  if not next(expiries) or not server_expires_fields() then return nil end
  for field, at in pairs(expiries) do
    local reply = real.pcall('HPEXPIREAT', name, string.format('%.0f', at), 'FIELDS', '1', field)
    if reply.err then return reply end
  end
end
