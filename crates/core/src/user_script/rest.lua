-- What is rare: values that a script on fields declines, commands on several keys, commands that the server carries out on
-- a scratch key, errors. Nothing of it is made before it is needed.
local function now()
  local at = field_call('TIME')
  return at[1] * 1000 + math.floor(at[2] / 1000)
end

-- How often members were drawn.
local draws = 0

local function carry_out_rest(upper, place, count, args, is_allowed)
  local place_named, names_others = place, false
  for at = 2, count do
    local found = places[args[at]]
    place_named = place_named or found
    names_others = names_others or at > 2 and found ~= nil
  end
  local function refusal(place, why)
    local key = string.gsub(place[5], '[%c\127-\255]', '?')
    return {err = 'ERR keyfold: ' .. upper .. " in a script on the folded key '" .. key .. "': " .. why}
  end
  --@numerals
  --@integers
  --@unpacked
  --@packed
  local function take_failure()
    local failure = failed
    failed = nil
    return failure
  end
  -- Whether what lies in a field is a hash all of whose fields have expired, before the key does.
  local function has_passed(place, kind, body)
    if place[7] ~= 'hash' then return false end
    local value = body
    if kind == 2 then
      local name = #body == 8 and spill_name(string.sub(place[4], 9), place[5], body)
      value = name and real.pcall('GETRANGE', name, '0', '0')
      if value == 'C' then value = real.pcall('GET', name) end
    end
    local names = (kind == 0 or kind == 2) and type(value) == 'string' and string.byte(value) == 67 and unpacked(value)
    return names and not names[1]
  end
  -- What lies in a field: when it expires, what it is (0 the value, 1 an integer, 2 a pointer, 3 a codec's), and that. All
  -- nothing where there is none. An error is the fourth.
  local function read_frame(place)
    local stored = field_call('HGET', place[1], place[2])
    if failed then return nil, nil, nil, take_failure() end
    if not stored then return nil end
    local tag = string.byte(stored)
    if not tag or tag > 31 then return nil, not has_passed(place, 0, stored) and 0 or nil, stored end
    local length, expires_at = tag % 4, nil
    local from = length == 0 and 2 or length == 1 and 7 or 10
    if length == 3 or #stored < from - 1 then
      return nil, nil, nil, refusal(place, 'what is stored there is none of keyfold\'s forms')
    end
    if length == 1 then
      expires_at = struct.unpack('>I5', stored, 2) + 1577836800000
    elseif length == 2 then
      expires_at = struct.unpack('>i8', stored, 2)
    end
    if expires_at and expires_at < now() then return expires_at, nil, stored end
    local kind, body = math.min(math.floor(tag / 4), 3), string.sub(stored, from)
    -- Where all fields have expired there is no key.
    if has_passed(place, kind, body) then kind = nil end
    return expires_at, kind, body
  end
  -- How a frame says when it expires: the part of its tag, and the bytes; nothing where a script can't have that exactly.
  local function expiry_in_frame(at)
    if not at then return 0, '' end
    local since_2020 = at - 1577836800000
    if since_2020 >= 0 and since_2020 < 1099511627776 then return 1, struct.pack('>I5', since_2020) end
    if at < 9007199254740992 then return 2, struct.pack('>i8', at) end
  end
  local function too_far(place)
    return refusal(place, 'an expiry so far in the future can\'t be read in a script')
  end
  local remove
  --@in_parts
  -- When a key expires whose frame does then: behind this tag the frame says when the last of its fields does.
  local function of_key(place, value, expires_at)
    if place[7] == 'hash' and string.byte(value) == 68 then return nil end
    return expires_at
  end
  -- The value in a field and when it expires; nothing where there is none. An error is the third.
  local function read(place)
    local expires_at, kind, body, failure = read_frame(place)
    if failure or not kind then return nil, nil, failure end
    if kind == 0 then return body, of_key(place, body, expires_at) end
    if kind == 1 and #body > 0 and #body < 9 then return decimal(body), expires_at end
    if kind == 2 and #body == @pointer then
      local value, why_not = packed_parts(place, parts_of(place))
      return value, expires_at, why_not
    end
    if kind == 2 and #body == 8 then
      local value = real.pcall('GET', spill_name(string.sub(place[4], 9), place[5], body))
      if type(value) == 'string' then return value, of_key(place, value, expires_at) end
      return nil, nil, value or refusal(place, 'the long value that it points to is gone')
    end
    return nil, nil, refusal(place, 'its value was written by a codec, which the server can\'t read; use commands instead of a script')
  end
  local function unreadable(place)
    return refusal(place, 'it has a field that expires, or none of keyfold\'s forms; use commands instead of a script')
  end
  local function another_type(place)
    local kind = place[7] == '' and 'string' or place[7]
    return refusal(place, 'it would hold another type than a ' .. kind .. '; use another key')
  end
  -- Removes a spilled value that isn't pointed to any more, later where other clients may still have seen the pointer.
  local function retire(place, kind, body)
    if kind ~= 2 then return end
    local nonce = string.sub(body, 1, 8)
    if nonce == string.sub(place[4], 1, 8) then
      real.pcall('UNLINK', spill_name(string.sub(place[4], 9), place[5], nonce))
    else
      real.pcall('PEXPIRE', spill_name(string.sub(place[4], 9), place[5], nonce), '5000')
    end
  end
  remove = function(place)
    local _, kind, body = read_frame(place)
    field_call('HDEL', place[1], place[2])
    if not failed then retire(place, kind, body) end
    return take_failure()
  end
  -- Writes a value; nothing where that succeeded, else the error.
  local function write(place, value, expires_at)
    local _, kind, body = read_frame(place)
    if place[7] == 'hash' then value, expires_at = passing(value, expires_at) end
    local tag, expiry = expiry_in_frame(expires_at)
    if not tag then return too_far(place) end
    local short = tag == 1 and expiry or nil
    if failed then return take_failure() end
    if kind ~= 2 and tag < 2 and on_field(place, {place[2], place[3], value, short}, 6) == true or failed then return take_failure() end
    local integer, stored = tag > 0 and integer_bytes(value), nil
    if integer then
      stored = string.char(tag + 4) .. expiry .. integer
    elseif tag > 0 or value ~= '' and string.byte(value) < 32 then
      stored = string.char(tag) .. expiry .. value
    else
      stored = value
    end
    local is_done = #stored > tonumber(place[3]) and place[7] ~= '' and put_in_parts(place, value, string.char(tag + 8) .. expiry)
    if is_done then
      if is_done == true then retire(place, kind, body) else return is_done end
      return nil
    end
    if #stored > tonumber(place[3]) then
      local nonce = string.sub(place[4], 1, 8)
      local reply = real.pcall('SET', spill_name(string.sub(place[4], 9), place[5], nonce), value)
      -- While the slot moves no new key of it may be written: the value stays in the bucket until it is written again.
      local is_on_its_way = reply.err and string.find(reply.err, 'non local key', 1, true)
      if reply.err and not is_on_its_way then return reply end
      if not is_on_its_way then
        if kind == 2 and string.sub(body, 1, 8) == nonce then kind = nil end
        stored = string.char(tag + 8) .. expiry .. nonce
      end
    end
    field_call('HSET', place[1], place[2], stored)
    if not failed then retire(place, kind, body) end
    return take_failure()
  end
  -- When the fields of a hash expire that the server has under this name.
  local function expiries_of(name, names, values)
    local expiries, some = {}, {}
    local function ask()
      local reply = some[1] and real.pcall('HPEXPIRETIME', name, 'FIELDS', #some, unpack(some)) or {}
      for at, expires_at in ipairs(reply) do
        -- -2 says that it expires in this millisecond.
        if expires_at ~= -1 then expiries[some[at]] = math.max(expires_at, 1) end
      end
      some = {}
    end
    for _, field in ipairs(names) do
      if values[field] then some[#some + 1] = field end
      if #some == 1000 then ask() end
    end
    ask()
    return expiries
  end
  -- What a key holds, as it is stored: a string, or a packed set or hash in the order that it had; false where there is none, and
  -- nothing where it is of another kind.
  local function on_key(name, kind, old)
    local found = real.pcall('TYPE', name).ok
    if found == 'none' then return false end
    if found ~= (kind == '' and 'string' or kind) then return nil end
    if kind == '' then return real.pcall('GET', name) end
    local names, known, values, known_expiries, is_same = {}, {}, {}, {}, true
    if old then names, known, known_expiries = unpacked(old) end
    if none == nil then real.setresp(2) end
    local all = real.pcall(kind == 'set' and 'SMEMBERS' or 'HGETALL', name)
    if none == nil then real.setresp(3) end
    local step, old_count = kind == 'set' and 1 or 2, #names
    for at = 1, #all, step do
      local value = step == 1 or all[at + 1]
      values[all[at]] = value
      if known[all[at]] == nil then names[#names + 1] = all[at] end
      is_same = is_same and known[all[at]] == value
    end
    -- A server that has no fields that expire has left them as they were, unless all of the hash was replaced.
    local expiries = upper ~= 'RESTORE' and known_expiries or {}
    if step == 2 and server_expires_fields() then expiries = expiries_of(name, names, values) end
    for _, field in ipairs(names) do is_same = is_same and (not values[field] or expiries[field] == known_expiries[field]) end
    if is_same and old_count * step == #all then return old or false end
    return packed(kind, names, values, expiries)
  end
  -- The server carries a command out, with scratch keys at these positions in place of the folded keys' names, each of which
  -- holds the value while it does.
  local function on_scratch(positions)
    local scratch = 'keyfold:{' .. (string.match(place_named[6], '^~{(.-)}') or 'home') .. '}:scratch'
    local shown, before, order = {}, {}, {}
    local result
    -- These take it whole to where a field may not expire.
    local goes_elsewhere = positions[2] or upper == 'DUMP'
    for _, at in ipairs(positions) do
      local place = places[args[at]]
      if place and not shown[place] then
        order[#order + 1] = place
        shown[place] = place[1]
        if place[3] ~= '' then
          shown[place] = scratch .. #order
          local value, expires_at, failure = read(place)
          if not failure and value and not reads_only then
            if place[7] ~= '' then
              local names, values, expiries, has_expired = unpacked(value)
              place[9] = has_expired
              if not names or next(expiries) and goes_elsewhere and not server_expires_fields() then
                failure = unreadable(place)
              elseif names[1] then
                failure = fill(shown[place], place[7], names, values, expiries)
              else
                -- With the last of its fields the key has gone.
                value, expires_at = nil, nil
              end
            else
              failure = real.pcall('SET', shown[place], value)
              failure = failure.err and failure
            end
            if not failure and value and expires_at then
              failure = real.pcall('PEXPIREAT', shown[place], string.format('%.0f', expires_at))
              failure = type(failure) == 'table' and failure
            end
          end
          result = result or failure
          before[place] = {value, expires_at}
        end
      end
      if place then args[at] = shown[place] end
    end
    -- The server may go by a later time than was asked for before.
    bucket_known, time = nil, nil
    local is_answer = not result
    if is_answer then result = real.pcall(unpack(args, 1, count)) end
    -- All is looked at before anything is written: a key that would get another type stays as it is, and with it all others.
    local after = {}
    for _, place in ipairs(order) do
      local old = before[place]
      if not old then
        local kind = not reads_only and real.pcall('TYPE', place[1]).ok
        if kind and kind ~= 'string' and kind ~= 'none' then
          real.pcall('UNLINK', place[1])
          result, is_answer = another_type(place), false
        end
      elseif reads_only then
        local is_error = type(result) == 'table' and result.err
        if not is_error and old[1] then
          result = refusal(place, 'not supported where a script may only read; leave out no-writes, or call EVAL')
        end
      elseif is_answer then
        local value, expires_at = on_key(shown[place], place[7], old[1]), nil
        if value then
          expires_at = real.pcall('PEXPIRETIME', shown[place])
          if type(expires_at) == 'table' then
            expires_at = real.pcall('PTTL', shown[place])
            if expires_at >= 0 then expires_at = now() + expires_at end
          end
          if expires_at < 0 then expires_at = nil end
          if not expiry_in_frame(expires_at) then result, is_answer = too_far(place), false end
        elseif value == nil then
          result, is_answer = another_type(place), false
        end
        after[place] = {value, expires_at}
      end
    end
    for _, place in ipairs(order) do
      local old = before[place]
      if old and not reads_only then
        if is_answer then
          local value, expires_at, failure = after[place][1], after[place][2], nil
          if not value then
            failure = old[1] and remove(place)
          elseif value ~= old[1] or expires_at ~= old[2] then
            failure = write(place, value, expires_at)
          end
          result = failure or result
        end
        real.pcall('UNLINK', shown[place])
      end
    end
    return result
  end
  local function is_in(list) return string.find(list, ' ' .. upper .. ' ', 1, true) end
  -- Whether an argument is none that a server takes: it says so before it does anything.
  local function has_no_text()
    for at = 2, count do
      if type(args[at]) ~= 'string' and type(args[at]) ~= 'number' then return true end
    end
  end
  -- MGET, EXISTS, DEL and their like: each key by itself.
  local function on_each()
    -- As long as the server makes its tables, whatever is nil in them.
    local sum, values = 0, {unpack(args, 2, count)}
    for at = 2, count do
      local reply
      local place = places[args[at]]
      if upper == 'MGET' and place and place[7] ~= '' then
        values[at - 1] = none
      elseif upper == 'MGET' and place and place[3] ~= '' then
        local value, _, failure = read(place)
        if failure then return failure end
        if value then values[at - 1] = value else values[at - 1] = none end
      elseif place and place[3] ~= '' then
        local _, kind, _, failure = read_frame(place)
        if kind and (upper == 'DEL' or upper == 'UNLINK') then failure = remove(place) end
        if failure then return failure end
        sum = sum + (kind and 1 or 0)
      else
        reply = real.pcall(args[1], place and place[1] or args[at])
        if type(reply) == 'table' and reply.err then return reply end
        if upper == 'MGET' then values[at - 1] = reply[1] else sum = sum + reply end
      end
    end
    return upper == 'MGET' and values or sum
  end
  -- Reading a value that isn't stored as most are.
  local function look()
    if upper == 'GET' or upper == 'STRLEN' then
      local value, _, failure = read(place)
      if failure then return failure end
      if upper == 'GET' then return value or none end
      return value and #value or 0
    end
    if count == 4 then
      local value, _, failure = read(place)
      return failure or part_of(value or '', tonumber(args[3]), tonumber(args[4]))
    end
    local expires_at, kind, body, failure = read_frame(place)
    if failure then return failure end
    if upper == 'TYPE' then return {ok = not kind and 'none' or place[7] == '' and 'string' or place[7]} end
    if not kind then return -2 end
    if place[7] == 'hash' and expires_at then
      local _, of_key, why_not = read(place)
      if why_not then return why_not end
      expires_at = of_key
    end
    if not expires_at then return -1 end
    if upper == 'TTL' or upper == 'PTTL' then expires_at = expires_at - now() end
    return (upper == 'TTL' or upper == 'EXPIRETIME') and math.floor((expires_at + 500) / 1000) or expires_at
  end
  -- MSET and MSETNX.
  local function set_each()
    for at = 2, count, 2 do
      local place = places[args[at]]
      if place and place[7] ~= '' then return another_type(place) end
    end
    if upper == 'MSETNX' then
      for at = 2, count, 2 do
        local found = carry_out_rest('EXISTS', nil, 2, {'EXISTS', args[at]}, true)
        if found ~= 0 then return found == 1 and 0 or found end
      end
    end
    for at = 2, count, 2 do
      local place, failure = places[args[at]], nil
      if place and place[3] ~= '' and type(args[at + 1]) == 'string' then
        failure = write(place, args[at + 1])
      else
        local set = {'SET', args[at], args[at + 1]}
        local reply = place and carry_out_rest('SET', place, 3, set, true) or real.pcall(unpack(set))
        failure = reply.err and reply
      end
      if failure then return failure end
    end
    return upper == 'MSET' and {ok = 'OK'} or 1
  end
  bucket_known = nil
  if not is_allowed and is_in(' DEL UNLINK MSET MSETNX ') then return real.pcall(unpack(args, 1, count)) end
  if is_in(' DEL UNLINK EXISTS TOUCH MGET MSET MSETNX ') and has_no_text() then return real.pcall(unpack(args, 1, count)) end
  if count > 1 and is_in(' DEL UNLINK EXISTS TOUCH MGET ') then return on_each() end
  local function is_integer(arg)
    arg = tostring(arg)
    return #arg < 16 and (arg == '0' or string.find(arg, '^%-?[1-9]%d*$'))
  end
  -- A zero with a sign is an integer to some servers only.
  if count == 4 and is_in(' GETRANGE SUBSTR ') then
    for at = 3, 4 do if args[at] == 0 then args[at] = real.pcall('ECHO', args[at]) end end
  end
  local is_part = count == 4 and is_in(' GETRANGE SUBSTR ') and is_integer(args[3]) and is_integer(args[4])
  local is_look = is_part or count == 2 and is_in(' GET STRLEN TYPE TTL PTTL EXPIRETIME PEXPIRETIME ')
  local is_of_strings = count == 4 or upper == 'GET' or upper == 'STRLEN'
  if place and place[3] ~= '' and is_look and (place[7] == '' or not is_of_strings) then return look() end
  if place and place[7] ~= '' then
    if is_in(' HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HPERSIST HSETEX HGETEX HGETDEL HTTL HPTTL HEXPIRETIME HPEXPIRETIME ') and place[7] == 'hash'
      and not server_expires_fields() then
      return refusal(place, 'the server has no fields that expire; use commands instead of a script')
    end
    --@members
    local reply = on_members()
    if reply ~= nil then return reply end
  end
  if is_in(' MSET MSETNX ') then
    if count % 2 == 0 or count == 1 then return real.pcall(unpack(args, 1, count)) end
    return set_each()
  end
  -- No argument of these is a key.
  if is_in(' PUBLISH SPUBLISH ECHO PING ') then return real.pcall(unpack(args, 1, count)) end
  if is_in(' RENAME RENAMENX COPY LCS ') then
    local from, to = places[args[2]], places[args[3]]
    -- The server reads an option up to its first NUL.
    for at = 4, upper == 'COPY' and count or 0 do
      if string.upper(string.match(tostring(args[at]), '^%Z*')) == 'DB' then
        return refusal(from or to, 'another database is not supported')
      end
    end
    if not reads_only and from and to and count == 3 and upper ~= 'LCS' and from[7] ~= '' then
      local reply = renamed_in_parts(from, to)
      if reply ~= nil then return reply end
    end
    if upper ~= 'LCS' and to and not from then
      local kind = real.pcall('TYPE', args[2]).ok
      if kind and kind ~= (to[7] == '' and 'string' or to[7]) and kind ~= 'none' then return another_type(to) end
    end
    return on_scratch({2, 3})
  end
  local positions = {}
  if upper == 'SMOVE' then
    local to = places[args[3]]
    local reply = not reads_only and place and to and count == 4 and place[7] == 'set' and to[7] == 'set' and moved_in_parts(place, to)
    if reply then return reply end
    local _, is_there = unpack(to and count == 4 and to[7] ~= 'set' and {read_frame(to)} or {nil, true})
    if not is_there then return another_type(to) end
    return on_scratch({2, 3})
  end
  local of_sets = is_in(' SINTER SUNION SDIFF SINTERSTORE SUNIONSTORE SDIFFSTORE ') and 2 or is_in(' SINTERCARD ') and 3
  if of_sets then
    local last = of_sets == 2 and count or math.min(count, 2 + (tonumber(args[2]) or 0))
    for at = of_sets, last do positions[#positions + 1] = at end
    return on_scratch(positions)
  end
  if upper == 'BITOP' then
    for at = 3, count do positions[#positions + 1] = at end
    return on_scratch(positions)
  end
  -- Of these only the first argument is a key.
  local has_one_key = is_in('@one_key')
  if place and (has_one_key or not names_others) and not is_in(' MOVE MIGRATE ') then return on_scratch({2}) end
  if not place and has_one_key then return real.pcall(unpack(args, 1, count)) end
  -- What the server hasn't, or not in scripts, it says itself.
  local known = real.pcall('COMMAND', 'INFO', args[1])
  known = not known.err and (known[1] or {}) or {nil, nil, {}}
  local is_refused = not known[3]
  for _, flag in ipairs(known[3] or {}) do is_refused = is_refused or flag.ok == 'noscript' end
  if is_refused then return real.pcall(unpack(args, 1, count)) end
  return refusal(place_named, 'not supported; use GET and SET, or leave the namespace unfolded')
end
