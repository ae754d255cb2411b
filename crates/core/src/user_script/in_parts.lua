-- Sets and hashes in parts, by the script that carries out commands on those elsewhere (crates/core/src/exchange/parts/parts.lua).
local function parts_script(KEYS, ARGV)
  --@parts
end
-- Where a value may lie, the first of which is where it is written.
local function spots_of(place) return place[8] or {{'field', place[1], place[2], string.sub(place[4], 9)}} end
local function head_of_parts(spot) return string.sub(spot[4], 1, -2) .. '|' end
-- Where the parts lie that a key's value points to: the bucket, the field, what names of parts begin with, and what the field holds.
-- Nothing where it lies otherwise, or has expired.
local function parts_of(place)
  local _, kind, body = read_frame(place)
  if kind ~= 2 or #body ~= @pointer then return nil end
  for _, spot in ipairs(spots_of(place)) do
    local stored = spot[1] == 'field' and real.pcall('HGET', spot[2], spot[3])
    if type(stored) == 'string' then return {spot[2], spot[3], head_of_parts(spot), stored} end
  end
end
-- What the script on parts answers to one command; an error as a table.
local function ask_parts(place, parts, what, words)
  words = words or {}
  local argv = {'-', parts[2], parts[3], '@longest', '@integers', '@texts', '-9007199254740992', '', '', what, #words}
  for at, word in ipairs(words) do argv[at + 11] = word end
  local is_resp3 = none == nil
  if is_resp3 then real.setresp(2) end
  local is_done, reply = pcall(parts_script, {parts[1]}, argv)
  if is_resp3 then real.setresp(3) end
  bucket_known = nil
  if not is_done then return {err = type(reply) == 'table' and reply.err or tostring(reply)} end
  if type(reply) ~= 'table' then return reply end
  if reply.ok == 'damaged' then return refusal(place, '@damaged') end
  if reply.ok then return refusal(place, 'it is too large for that in a script; use commands instead of a script') end
  -- Who sends this word has whole scripts sent once more, of which some commands are carried out.
  if reply.err and string.find(reply.err, '^%-?TRYAGAIN') then
    return refusal(place, 'its slot is on its way to another node; send the script again once it has moved')
  end
  return reply
end
-- All members, in the order in which they lie, or all fields with their values. An error is the second.
local function all_in_parts(place, parts, most)
  local found = ask_parts(place, parts, 'ALL', {most})
  if found.err then return nil, found end
  if #found == 2 then
    return nil, refusal(place, string.format('its %.0f members are too many for that in a script; use commands instead of a script', found[2]))
  end
  local all = {}
  for at = 4, #found do
    for _, text in ipairs(found[at]) do all[#all + 1] = text end
  end
  -- Parts may have been evicted, or removed past keyfold.
  if ask_parts(place, parts, 'COUNT') ~= #all / (place[7] == 'set' and 1 or 2) then return nil, refusal(place, '@damaged') end
  return all
end
-- What all members are, or all fields with their values, by name; and the names in their order. An error is the third.
local function by_name(place, parts, most)
  local all, failure = all_in_parts(place, parts, most)
  local names, values, step = {}, {}, place[7] == 'set' and 1 or 2
  for at = 1, all and #all or 0, step do
    names[#names + 1] = all[at]
    values[all[at]] = step == 1 or all[at + 1]
  end
  return names, values, failure
end
-- The same in the packed form, where the server is to work on it.
local function packed_parts(place, parts)
  local names, values, failure = by_name(place, parts, 65536)
  if failure then return nil, failure end
  return packed(place[7], names, values, {})
end
-- What the names of all parts with a nonce begin with, and the whole name of what says whose they are.
local function owner_of_parts(head, nonce) return head .. string.format('%08x%08x', struct.unpack('>I4I4', nonce)) end
-- Puts a packed set or hash that is too long for its bucket into parts, to which what is stored points behind its expiry. Whether it did, or the
-- error.
local function put_in_parts(place, value, pointer)
  local spot, nonce, names, values, expiries = spots_of(place)[1], string.sub(place[4], 1, 8), unpacked(value)
  if spot[1] ~= 'field' or not names or next(expiries) then return false end
  local parts = {spot[2], spot[3], head_of_parts(spot)}
  local owner = owner_of_parts(parts[3], nonce)
  -- The nonce may have been used by this script already. Of two names a node says whether their slot is on its way.
  if #names <= @fewest or real.pcall('EXISTS', owner, owner .. '<') ~= 0 then return false end
  local reply = real.pcall('SET', owner, place[5])
  if reply.err then return reply end
  local form = 'F'
  if place[7] == 'set' then form = (real.REDIS_VERSION_NUM or 0) >= 0x00070200 and 'S' or 'H' end
  field_call('HSET', place[1], place[2], pointer .. nonce .. struct.pack('>I6c1BI5BI5BI5B', 0, form, 0, 0, 0, 0, 0, 0, string.byte(nonce, 8) % 64 * 4) .. nonce)
  if failed then return take_failure() end
  local some = {}
  for at, name in ipairs(names) do
    some[#some + 1] = name
    if form == 'F' then some[#some + 1] = values[name] end
    if #some >= 1000 or at == #names then
      reply = ask_parts(place, parts, 'ADD', some)
      if type(reply) == 'table' then return reply end
      some = {}
    end
  end
  return true
end
-- Carries out SPOP, SRANDMEMBER or HRANDFIELD; nothing where it isn't as it mostly is.
local function drawn_from_parts(place, parts, count, args)
  local wanted, is_one, with_values = args[3] or '1', count == 2, count == 4 and string.upper(args[4]) == 'WITHVALUES'
  local takes = upper == 'SPOP'
  if not string.find(wanted, '^%-?[1-9]%d*$') or #wanted > 6 or takes and string.sub(wanted, 1, 1) == '-' then return nil end
  if count > (upper == 'HRANDFIELD' and 4 or 3) or count == 4 and not with_values then return nil end
  wanted = tonumber(wanted)
  local total = ask_parts(place, parts, 'COUNT')
  if type(total) == 'table' then return total end
  -- So many are all of them, or most: the server draws.
  if wanted * 2 > total and not takes then return nil end
  draws = draws + 1
  local at = field_call('TIME')
  local seed = (at[1] * 1000003 + at[2] * 1009 + struct.unpack('>I4', string.sub(place[4], 5)) + draws * 7919) % 2147483648
  local found = ask_parts(place, parts, takes and 'TAKE' or 'DRAW', {seed, math.abs(wanted), wanted < 0 and '1' or '0', with_values and '1' or '0'})
  if found.err then return found end
  if takes then
    local failure = ask_parts(place, parts, 'COUNT') == 0 and remove(place)
    if failure then return failure end
  end
  if is_one then return found[1] end
  if none == nil and with_values then
    local pairs = {}
    for at = 1, #found, 2 do pairs[#pairs + 1] = {found[at], found[at + 1]} end
    return pairs
  end
  if none == nil and takes then
    local members = {}
    for _, member in ipairs(found) do members[member] = true end
    return {set = members}
  end
  return found
end
-- Carries out SMOVE where either set lies in parts: as SREM and SADD. Nothing where the server is to say it.
local function moved_in_parts(from, to)
  if from == to or not (parts_of(from) or parts_of(to)) then return nil end
  local function on(place, name) return carry_out_rest(name, place, 3, {name, place[5], args[4]}, true) end
  local is_there = on(from, 'SISMEMBER')
  if is_there ~= 1 then return is_there end
  -- On a full server it stays where it is.
  local added = on(to, 'SADD')
  if type(added) == 'table' then return added end
  local removed = on(from, 'SREM')
  return type(removed) == 'table' and removed or 1
end
-- Carries out RENAME and RENAMENX where the parts stay where they are; nothing where they don't.
local function renamed_in_parts(from, to)
  local parts = upper ~= 'COPY' and from ~= to and from[7] == to[7] and not from[8] and not to[8] and parts_of(from)
  if not parts or string.sub(from[4], 9) ~= string.sub(to[4], 9) then return nil end
  local _, is_there, _, failure = read_frame(to)
  if failure then return failure end
  if is_there and upper == 'RENAMENX' then return 0 end
  local _, _, body = read_frame(from)
  -- It says too whether their slot is on its way.
  local size = ask_parts(from, parts, 'COUNT')
  if type(size) == 'table' then return size end
  local reply = real.pcall('SET', owner_of_parts(parts[3], body), to[5])
  failure = reply.err and reply or remove(to)
  if failure then return failure end
  field_call('HSET', to[1], to[2], parts[4])
  field_call('HDEL', from[1], from[2])
  if failed then return take_failure() end
  return upper == 'RENAMENX' and 1 or {ok = 'OK'}
end
-- Carries out EXPIRE, PERSIST or one of their kin: the server does on a key that expires as this one does.
local function expired_in_parts(place, parts, args, count)
  local scratch = 'keyfold:{' .. (string.match(place[6], '^~{(.-)}') or 'home') .. '}:scratch'
  local expires_at, _, body = read_frame(place)
  local reply = real.pcall('SET', scratch, '')
  if reply.err then return reply end
  if expires_at then real.pcall('PEXPIREAT', scratch, string.format('%.0f', expires_at)) end
  args[2] = scratch
  reply = real.pcall(unpack(args, 1, count))
  local left, failure = real.pcall('PTTL', scratch), nil
  if left == -2 then
    failure = remove(place)
  elseif reply == 1 then
    local at = real.pcall('PEXPIRETIME', scratch)
    if type(at) == 'table' then at = left < 0 and left or now() + left end
    local tag, expiry = expiry_in_frame(at >= 0 and at)
    if tag then
      -- While keys are moved the header stays where its parts belong.
      local written = real.pcall('HSET', parts[1], parts[2], string.char(tag + 8) .. expiry .. body)
      bucket_known = nil
      failure = type(written) == 'table' and written
    else
      failure = too_far(place)
    end
  end
  real.pcall('DEL', scratch)
  return failure or reply
end
