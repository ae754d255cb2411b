-- What stands in for a bucket where a key's value doesn't simply lie in a field as a frame: where a codec wrote it, or
-- another application; where it is a string of its own; and where it may lie in one of two places. A function that answers
-- HGET, and carries out HSET and HDEL, of frames that no codec wrote. What is written goes to the first spot, and nothing stays
-- in the others. `kind` is "set" or "hash" where that is what the frames hold, packed.
-- A spot: what it is (a field of a bucket, a field of another application's hash, a string, or a string that is a frame), its
-- physical key, the field, what names of spilled values begin with; then what keyfold has read there that a script can't
-- understand, "+" before it, and what it means, "+" before that, or "-" for nothing.
-- Instead of the function: again, where by now something lies there that a script can't understand and keyfold hasn't read;
-- other, where the key itself is there and holds another type.
local function elsewhere(key, spots, kind)
  --@numerals
  --@integers
  --@unpacked
  local function stored_in(spot)
    if spot[1] == 'field' or spot[1] == 'theirs' then return real.pcall('HGET', spot[2], spot[3]) or false end
    local stored = real.pcall('GET', spot[2]) or false
    -- Where sets or hashes are kept, a string under a key's own name is another type.
    if kind ~= '' and type(stored) == 'string' then return {err = 'WRONGTYPE Operation against a key holding the wrong kind of value'} end
    return stored
  end
  --@pointed
  -- When a frame expires: the part of the tag that says how, and the bytes that do.
  local function expiry_of(frame)
    local part = string.byte(frame) % 4
    return part, part == 0 and '' or string.sub(frame, 2, part == 1 and 6 or 9)
  end
  local function expiry_of_key(name)
    local at = real.pcall('PEXPIRETIME', name)
    if type(at) == 'table' then
      at = real.pcall('PTTL', name)
      local now = field_call('TIME')
      if at >= 0 then at = at + now[1] * 1000 + math.floor(now[2] / 1000) end
    end
    if at < 0 then return 0, '' end
    local since_2020 = at - 1577836800000
    if since_2020 >= 0 and since_2020 < 1099511627776 then return 1, struct.pack('>I5', since_2020) end
    return 2, struct.pack('>i8', at)
  end
  local function framed(value, part, expiry)
    if part > 0 then return string.char(part) .. expiry .. value end
    return value ~= '' and string.byte(value) < 32 and '\0' .. value or value
  end
  -- The frame that stands for what is stored in a spot; false where that is nothing.
  local function read(spot, stored)
    local part, expiry, tag = 0, '', string.byte(stored)
    if spot[1] == 'field' then
      if tag and tag < 32 then part, expiry = expiry_of(stored) end
    elseif spot[1] ~= 'theirs' then
      part, expiry = expiry_of_key(spot[2])
    end
    if '+' .. stored == spot[5] then
      return spot[6] ~= '-' and framed(string.sub(spot[6], 2), part, expiry)
    end
    if spot[1] == 'string' then return framed(stored, part, expiry) end
    if spot[1] == 'framed' then return framed(tag == 0 and string.sub(stored, 2) or stored, part, expiry) end
    local nonce, _, is_in_parts = pointed(stored)
    if not nonce or is_in_parts then return stored end
    local value = real.pcall('GET', spill_name(spot[4], key, nonce)) or false
    return type(value) == 'string' and framed(value, part, expiry) or value
  end
  local is_stored, is_other = false, false
  for _, spot in ipairs(spots) do
    local stored = stored_in(spot)
    if type(stored) == 'table' then
      is_other = is_other or spot[2] == key and string.find(stored.err, 'WRONGTYPE', 1, true)
    elseif stored then
      is_stored = true
      local tag = string.byte(stored)
      local _, is_coded = pointed(stored)
      local is_strange = spot[1] == 'theirs' or spot[1] ~= 'string' and tag and tag < 32 and (tag > 11 or is_coded)
      if is_strange and '+' .. stored ~= spot[5] then return nil, 'again' end
    end
  end
  if is_other and not is_stored then return nil, 'other' end
  local function put(spot, value)
    if spot[1] == 'field' then return real.pcall('HSET', spot[2], spot[3], value) end
    local tag, at = string.byte(value), nil
    if tag and tag < 32 then
      local part, expiry = expiry_of(value)
      if part == 1 then
        at = struct.unpack('>I5', expiry) + 1577836800000
      elseif part == 2 then
        at = struct.unpack('>i8', expiry)
      end
      value = string.sub(value, 2 + #expiry)
      if tag > 3 then value = decimal(value) end
    end
    if kind ~= '' then
      -- From now on it is the server's.
      places[key], places[tonumber(key) or key] = nil, nil
      local failure = fill(spot[2], kind, unpacked(value))
      -- Behind this tag it is the last field that expires, and not the key.
      if kind == 'hash' and string.byte(value) == 68 then at = nil end
      return failure or at and real.pcall('PEXPIREAT', spot[2], string.format('%.0f', at)) or 1
    end
    if spot[1] == 'framed' and value ~= '' and string.byte(value) < 32 then value = '\0' .. value end
    if at then return real.pcall('SET', spot[2], value, 'PXAT', string.format('%.0f', at)) end
    return real.pcall('SET', spot[2], value)
  end
  return function(name, _, value)
    if name == 'HGET' then
      for _, spot in ipairs(spots) do
        local stored = stored_in(spot)
        if type(stored) == 'table' then return stored end
        if stored then return read(spot, stored) end
      end
      return false
    end
    local old, kept = {}, nil
    for at, spot in ipairs(spots) do old[at] = stored_in(spot) end
    if value and kind ~= '' and spots[1][1] ~= 'field' and type(old[2]) == 'string' then
      -- A set or hash that is to get its own name stays where it is until it is moved.
      return put(spots[2], value)
    end
    if value then
      local reply = put(spots[1], value)
      if type(reply) == 'table' and reply.err then return reply end
      kept = spots[1][1] == 'field' and pointed(value)
    end
    for at, spot in ipairs(spots) do
      local stored = old[at]
      if type(stored) == 'string' then
        local nonce = spot[1] == 'field' and pointed(stored)
        if nonce and nonce ~= kept then real.pcall('PEXPIRE', spill_name(spot[4], key, nonce), '5000') end
        if at > 1 or not value then
          if spot[1] == 'field' or spot[1] == 'theirs' then
            real.pcall('HDEL', spot[2], spot[3])
          else
            real.pcall('UNLINK', spot[2])
          end
        end
      end
    end
    return 1
  end
end
