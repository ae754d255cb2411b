-- keyfold: gives a set or hash of many members another place, as a whole and at one moment. A key of its own becomes the remainder of
-- a collection in parts (crates/core/src/collection/parts/mod.rs), whose members come into parts later; or a remainder, behind which no
-- parts are left, becomes a key of its own or another's remainder.
-- KEYS: what lies there; what it is to be; where it comes from, the bucket and the owner of its parts; the same of where it goes. Without
-- a bucket, a key's own name, twice.
-- ARGV: its type; whether the server knows fields that expire; whether it has PEXPIRETIME; from which field, with which nonce before;
-- into which field; what stands there behind its expiry, the nonce and the header; its key. No nonce: from or to a key of its own.
-- Answers OK; 'gone' where it isn't there as it is said here; 'taken' where it is to go to something; 'parts' where parts are left;
-- 'expires' where fields of it may expire.
local call = redis.call
local from, to, from_bucket, from_owner, to_bucket, to_owner = unpack(KEYS)
local kind, knows_expiring, has_pexpiretime, from_field, from_nonce, to_field, header, key = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- When it expires, and the same as a frame begins with it (crates/core/src/frame.rs).
local expiry, head
if from_nonce ~= '' then
  local stored = call('HGET', from_bucket, from_field)
  local tag = stored and string.byte(stored)
  local at = tag == 8 and 2 or tag == 9 and 7 or tag == 10 and 10
  if not at or #stored ~= at + 8 + 34 - 1 or string.sub(stored, at, at + 7) ~= from_nonce then return {ok = 'gone'} end
  if at == 7 then expiry = struct.unpack('>I5', stored, 2) + 1577836800000 end
  if at == 10 then expiry = struct.unpack('>i8', stored, 2) end
  if expiry and expiry < now then return {ok = 'gone'} end
  local _, _, _, integers, _, texts, _, outliers, way = struct.unpack('>I6c1BI5BI5BI5B', stored, at + 8)
  if way % 4 ~= 2 or integers + texts + outliers > 0 then return {ok = 'parts'} end
  head = string.sub(stored, 1, at - 1)
  if header ~= '' then
    -- It turns: walks that are under way begin anew.
    local turns = (math.floor(way / 4) + 1) % 64
    header = string.sub(header, 1, -10) .. string.char(string.byte(header, -9) % 4 + turns * 4) .. string.sub(stored, -8)
  end
else
  if call('TYPE', from).ok ~= kind then return {ok = 'gone'} end
  if kind == 'hash' and knows_expiring == '1' then
    -- Which hash has such fields is told by none of the commands that look at few of them; whether any has, by this.
    for _, counter in ipairs({'subexpiry=', 'keys_with_volatile_items='}) do
      if string.find(call('INFO', 'keyspace'), counter .. '[1-9]') then return {ok = 'expires'} end
    end
  end
  expiry = call(has_pexpiretime == '1' and 'PEXPIRETIME' or 'PTTL', from)
  if expiry < 0 then expiry = nil elseif has_pexpiretime ~= '1' then expiry = now + expiry end
  -- Beyond this Lua has no integers; it is in 285,000 years.
  if expiry then expiry = math.min(expiry, 2 ^ 53) end
  local short = expiry and expiry - 1577836800000
  if not expiry then head = '\8'
  elseif short >= 0 and short < 2 ^ 40 then head = '\9' .. struct.pack('>I5', short)
  else head = '\10' .. struct.pack('>i8', expiry) end
end
if header ~= '' then
  if call('HEXISTS', to_bucket, to_field) == 1 then return {ok = 'taken'} end
elseif call('EXISTS', to) == 1 then
  return {ok = 'taken'}
end
call('RENAME', from, to)
if from_nonce ~= '' then
  call('HDEL', from_bucket, from_field)
  call('DEL', from_owner)
end
if header ~= '' then
  call('PERSIST', to)
  call('SET', to_owner, key)
  call('HSET', to_bucket, to_field, head .. header)
elseif expiry then
  call('PEXPIREAT', to, string.format('%.0f', expiry))
end
return {ok = 'OK'}
