-- keyfold: what stands before a user's script whose keys are folded. It gives the script a `redis` of its own, whose call
-- and pcall find declared keys where they lie; all else is the server's. Before it is sent, comments go and the lines become
-- one, so that the lines of the user's script keep their numbers. It runs at every call: what it makes costs time.
local real, places, reads_only, none, failed, time = redis, {}, false, false, nil, nil
-- Commands on a field, by which the scripts on fields go. What was read or written last is remembered until a command passes
-- by. After an error, which `failed` keeps, nothing more is done.
local bucket_known, field_known, stored_known
local function at_bucket(name, bucket, ...)
  if type(bucket) == 'function' then return bucket(name, ...) end
  return real.pcall(name, bucket, ...)
end
local function field_call(name, bucket, field, value)
  if failed then return false end
  if name == 'HGET' then
    if bucket == bucket_known and field == field_known then return stored_known end
    value = at_bucket(name, bucket, field) or false
    if type(value) == 'table' then failed, value = value, nil end
  elseif name == 'TIME' then
    time = time or real.call('TIME')
    return time
  elseif value then
    local reply = at_bucket(name, bucket, field, value)
    if type(reply) == 'table' then failed, value = reply, nil end
  else
    value = false
    local reply = at_bucket(name, bucket, field)
    if type(reply) == 'table' then failed, value = reply, nil end
  end
  bucket_known, field_known, stored_known = value ~= nil and bucket, field, value
  return value
end
--@elsewhere
--@out_of_reach
-- What a script is told by keyfold, at the end of KEYS and ARGV, and doesn't see. In ARGV it is: of each folded key its number
-- among KEYS, its name, the field, how long what is stored there may be (nothing for a key of its own), a nonce in eight bytes
-- with what names of spilled values begin with, "set" or "hash" where it is no string, and the number of its spots where it doesn't
-- simply lie in a field; then its spots, six arguments each, the second of which is the number of its physical key among KEYS.
-- Behind all of that: what to answer where keyfold has to read once more, the number of the script's own keys and of its own
-- arguments, and how many
-- folded keys there are, below zero where the script may only read.
do
  local KEYS, ARGV = KEYS, ARGV
  local last = #ARGV
  local again, own_keys, own_args, count = ARGV[last - 3], tonumber(ARGV[last - 2]), tonumber(ARGV[last - 1]), tonumber(ARGV[last])
  if count < 0 then reads_only, count = true, -count end
  local at = own_args + 1
  for _ = 1, count do
    local number, key = tonumber(ARGV[at]), ARGV[at + 1]
    local kind = ARGV[at + 5]
    local place = {KEYS[number], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], key, KEYS[number], kind}
    local spots, is_other = {}, false
    local spot_count = tonumber(ARGV[at + 6])
    at = at + 7
    for nth = 1, spot_count do
      local physical = KEYS[tonumber(ARGV[at + 1])]
      spots[nth] = {ARGV[at], physical, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]}
      if string.find(physical, '^~{') then place[6] = physical end
      at = at + 6
    end
    if spot_count > 0 then
      local bucket, why_not = elsewhere(key, spots, kind)
      if why_not == 'again' then return {again = {ok = again}} end
      place[1], place[8], is_other = bucket, spots, why_not == 'other'
    end
    local waits = spot_count == 0 and is_out_of_reach(key, 'field', place[1], place[2], string.sub(place[4], 9))
    for nth = 1, spot_count do waits = waits or is_out_of_reach(key, unpack(spots[nth], 1, 4)) end
    if waits then return {again = {err = 'TRYAGAIN keyfold: a script waits while the slot of its keys moves'}} end
    KEYS[number] = key
    if not is_other then
      places[key] = place
      -- Numbers are keys too, as the server writes them.
      local named = tonumber(key)
      if named and named == named and (string.format('%.17g', named) == key or named % 1 ~= 0 and real.pcall('ECHO', named) == key) then
        places[named] = place
      end
    end
  end
  for nth = #KEYS, own_keys + 1, -1 do KEYS[nth] = nil end
  for nth = last, own_args + 1, -1 do ARGV[nth] = nil end
end
local on_field
do
  local call = field_call
  -- What the scripts on fields do, by number: `argv` is the field, how long what is stored there may be, and the words.
  on_field = function(place, argv, script)
    local bucket, field, longest, at, answer, changed = place[1], argv[1], tonumber(argv[2]), 0, nil, nil
    --@frame
    if unsure then return {ok = '?'} end
    if not script then
      if number then value = string.format('%.0f', number) end
      return value, expiry
    end
    --@number_of
    if script == 1 then
      --@counter
    elseif script == 2 then
      --@replace
    elseif script == 3 then
      --@expire
    elseif script == 4 then
      --@take
    elseif script == 5 then
      --@splice
    else
      value, number, expiry, answer, changed = argv[3], nil, argv[4], true, true
    end
    if changed and not unsure then
      --@framed
      --@store
    end
    if unsure then return {ok = '?'} end
    return answer
  end
end
--@ordinary
local rest
-- The reply to a command, or its error as a table.
local function carry_out(...)
  local name, key, x, y = ...
  local count = select('#', ...)
  local place = places[key]
  local named = place or places[x] or places[y]
  if not named and count > 4 then
    for _, arg in ipairs({select(5, ...)}) do named = named or places[arg] end
  end
  if not named or type(name) ~= 'string' then
    bucket_known = nil
    return real.pcall(...)
  end
  local upper = string.upper(name)
  -- A script that may only read gets the server's error for all other commands, also such as would write nothing.
  local reads = ' GET MGET EXISTS TOUCH TYPE STRLEN TTL PTTL EXPIRETIME PEXPIRETIME GETRANGE SUBSTR SISMEMBER SMISMEMBER SCARD SMEMBERS'
    .. ' HGET HMGET HEXISTS HSTRLEN HLEN HGETALL HKEYS HVALS '
  local is_allowed = not reads_only or string.find(reads, ' ' .. upper .. ' ', 1, true)
  if is_allowed and place and place[3] ~= '' and place[7] == '' then
    local reply = ordinary(upper, place, count, select(3, ...))
    if failed then
      reply, failed = failed, nil
      return reply
    end
    if type(reply) ~= 'table' or reply.ok ~= '?' then return reply end
  end
  if not rest then
    --@rest
    rest = carry_out_rest
  end
  return rest(upper, place, count, {...}, is_allowed)
end
--@events
return setmetatable({
  pcall = carry_out,
  call = function(...)
    local reply = carry_out(...)
    if type(reply) == 'table' and reply.err then
      -- Before Redis 7 errors are texts.
      if not real.REDIS_VERSION_NUM then error(reply.err, 0) end
      -- The server notes on which line it was raised, which is here; it is to be where the script called.
      local _, where = pcall(error, '', 3)
      error(setmetatable({err = reply.err}, {__newindex = function(raised, name, value)
        if name == 'line' then value = tonumber(string.match(where, ':(%d+):')) or value end
        rawset(raised, name, value)
      end}))
    end
    return reply
  end,
  setresp = function(version)
    real.setresp(version)
    none = nil
    if version == 2 then none = false end
  end
}, {__index = real, __metatable = false})
