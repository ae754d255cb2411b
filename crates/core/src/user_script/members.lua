-- A command on one folded set or hash that needs no scratch key: what names members or fields, or reads all of them. Nothing where the
-- server has to say it: errors, and what it alone draws, counts or compares.
local function on_members()
  for at = 3, count do
    local arg = text(args[at])
    -- What has a point, or no end, the server writes.
    if not arg and type(args[at]) == 'number' then arg = real.pcall('ECHO', args[at]) end
    if type(arg) ~= 'string' then return nil end
    args[at] = arg
  end
  local kind, first, parts = place[7], args[3], parts_of(place)
  if parts and (kind == 'set' and is_in(' SPOP SRANDMEMBER ') or kind == 'hash' and upper == 'HRANDFIELD') and not (reads_only and upper == 'SPOP') then
    local reply = drawn_from_parts(place, parts, count, args)
    if reply ~= nil then return reply end
  end
  if parts and count > 2 and is_in(' EXPIRE PEXPIRE EXPIREAT PEXPIREAT ') and not reads_only or parts and count == 2 and upper == 'PERSIST' and not reads_only then
    return expired_in_parts(place, parts, args, count)
  end
  if parts and (kind == 'set' and upper == 'SSCAN' or kind == 'hash' and upper == 'HSCAN') then
    local size = ask_parts(place, parts, 'COUNT')
    -- Each step reads all of it.
    if type(size) == 'table' or size > 1000 then
      return type(size) == 'table' and size or refusal(place, 'it is too large to be walked in a script; use SMEMBERS or HGETALL, or walk it by commands')
    end
  end
  if parts and kind == 'hash' and count == 4 and is_in(' HINCRBY HINCRBYFLOAT ') and not reads_only then
    local reply = ask_parts(place, parts, upper, {first, args[4]})
    return upper == 'HINCRBY' and type(reply) == 'string' and tonumber(reply) or reply
  end
  local is_of_set = is_in(' SADD SREM SISMEMBER SMISMEMBER SCARD SMEMBERS ')
  local is_of_hash = is_in(' HSET HMSET HSETNX HDEL HGET HMGET HEXISTS HSTRLEN HLEN HGETALL HKEYS HVALS ')
  if kind == 'set' and not is_of_set or kind == 'hash' and not is_of_hash then return nil end
  local is_whole, names_one = is_in(' SCARD SMEMBERS HLEN HGETALL HKEYS HVALS '), is_in(' SISMEMBER HGET HEXISTS HSTRLEN ')
  local has_pairs, writes = is_in(' HSET HMSET HSETNX '), is_in(' SADD SREM HSET HMSET HSETNX HDEL ')
  local is_right = is_whole and count == 2 or names_one and count == 3 or upper == 'HSETNX' and count == 4
    or not (is_whole or names_one or upper == 'HSETNX') and count > 2 and (not has_pairs or count % 2 == 0)
  if not is_right or writes and reads_only then return nil end
  local asks = not is_in(' SMEMBERS HGETALL HKEYS HVALS ') and parts
  if asks then
    local what = ({SADD = 'ADD', HSET = 'ADD', HMSET = 'ADD', HSETNX = 'NEW', SREM = 'REMOVE', HDEL = 'REMOVE', SCARD = 'COUNT',
      HLEN = 'COUNT', HSTRLEN = 'LENGTH', HGET = 'GET', HMGET = 'GET'})[upper] or 'HAS'
    local words = {}
    for at = 3, count do words[at - 2] = args[at] end
    local reply = ask_parts(place, parts, what, words)
    if type(reply) == 'table' and reply.err then return reply end
    if what == 'REMOVE' and ask_parts(place, parts, 'COUNT') == 0 then return remove(place) or reply end
    if names_one then return reply[1] or none end
    if upper == 'HMSET' then return {ok = 'OK'} end
    if upper == 'HMGET' then
      for at = 1, count - 2 do reply[at] = reply[at] or none end
    end
    return reply
  end
  local names, values, expiries, value, expires_at, failure = {}, {}, {}, nil, nil, nil
  if parts then
    names, values, failure = by_name(place, parts, 1048576)
  else
    value, expires_at, failure = read(place)
  end
  if failure then return failure end
  if value then
    names, values, expiries, place[9] = unpacked(value)
    if not names then return unreadable(place) end
    -- With the last of its fields the key has gone.
    if not names[1] then expires_at = nil end
  end
  local is_resp3 = none == nil
  if upper == 'SCARD' or upper == 'HLEN' then return #names end
  if upper == 'SMEMBERS' then return is_resp3 and {set = values} or names end
  if upper == 'HKEYS' then return names end
  if upper == 'HGETALL' and is_resp3 then return {map = values} end
  if upper == 'HGETALL' or upper == 'HVALS' then
    local all = {}
    for _, name in ipairs(names) do
      if upper == 'HGETALL' then all[#all + 1] = name end
      all[#all + 1] = values[name]
    end
    return all
  end
  if upper == 'SISMEMBER' or upper == 'HEXISTS' then return values[first] and 1 or 0 end
  if upper == 'HGET' then return values[first] or none end
  if upper == 'HSTRLEN' then return #(values[first] or '') end
  if not writes then
    local all = {unpack(args, 3, count)}
    for at = 3, count do
      local found = values[args[at]]
      if kind == 'set' then found = found and 1 or 0 end
      all[at - 2] = found or none
    end
    return all
  end
  local changes, adds = 0, upper ~= 'SREM' and upper ~= 'HDEL'
  for at = 3, count, has_pairs and 2 or 1 do
    local name = args[at]
    if (values[name] ~= nil) ~= adds then changes = changes + 1 end
    if adds and values[name] == nil then names[#names + 1] = name end
    if not adds then
      values[name] = nil
    elseif upper ~= 'HSETNX' or values[name] == nil then
      values[name], expiries[name] = not has_pairs or args[at + 1], nil
    end
  end
  if changes > 0 or has_pairs and upper ~= 'HSETNX' then
    failure = next(values) and write(place, packed(kind, names, values, expiries), expires_at)
    if not next(values) then failure = remove(place) end
  end
  return failure or upper == 'HMSET' and {ok = 'OK'} or changes
end
