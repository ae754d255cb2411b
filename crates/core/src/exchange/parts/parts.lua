-- keyfold: members of one set or hash that lies in parts (crates/core/src/collection/parts/mod.rs draws how). What isn't in parts, or
-- not as it is read here, is left as it is and answered by "?".
-- KEYS: the bucket. ARGV: the field; what the names of parts begin with; how long a text in a part of texts may be; how many
-- integers a part may have, and how many texts; how few members are to be packed again; what the field held when it was seen; what
-- to do; then members, or fields with values.
-- Who only reads is told what was there when the field was seen: where it holds something else by now, as the client has sent
-- a DEL behind, the parts that it pointed to are still there for a while.
local call, bucket, field, longest, fewest, what = redis.call, KEYS[1], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[6]), ARGV[8]
local first = 9

-- The header: a frame that points to parts.
local unsure = {ok = '?'}
local stored, seen = call('HGET', bucket, field), ARGV[7]
local function nonce_at(frame)
  local at = ({[8] = 2, [9] = 7, [10] = 10})[frame and string.byte(frame)]
  return at and #frame == at + 32 and at
end
local at, seen_at, was_replaced = nonce_at(stored), nonce_at(seen), false
if ({HAS = 1, GET = 1, LENGTH = 1, ALL = 1, DRAW = 1, WALK = 1})[what] and seen_at then
  was_replaced = not at or string.sub(stored, at, at + 7) ~= string.sub(seen, seen_at, seen_at + 7)
  if was_replaced then stored, at = seen, seen_at end
end
if not at then return unsure end
if at > 2 then
  local time = call('TIME')
  local expiry = at == 7 and struct.unpack('>I5', stored, 2) + 1577836800000 or struct.unpack('>i8', stored, 2)
  -- From the next millisecond on it is over.
  if expiry + 1 <= time[1] * 1000 + time[2] / 1000 then return unsure end
end
local nonce = string.gsub(string.sub(stored, at, at + 7), '.', function(byte)
  return string.format('%02x', string.byte(byte))
end)
local integers, texts = tonumber(ARGV[4]), tonumber(ARGV[5])
local class, version, form = {i = {most = integers}, t = {most = texts}, o = {most = texts}}, nil, nil
version, form, class.i.depth, class.i.count, class.t.depth, class.t.count, class.o.depth, class.o.count =
  struct.unpack('>I6c1BI5BI5BI5', stored, at + 8)
local is_hash, base = form == 'F', ARGV[2] .. nonce
if was_replaced then
  -- What has no owner any more, or will soon have none, may be gone in part.
  local left = call('PTTL', base)
  if left ~= -1 and left < 1000 then return unsure end
end
local changed, total = false, class.i.count + class.t.count + class.o.count
for letter, of in pairs(class) do
  of.directory, of.is_set = base .. letter, not is_hash and not (letter == 't' and form == 'H')
  if was_replaced then
    -- It was changed after it was seen, perhaps.
    local ends = call('STRLEN', of.directory)
    of.depth, of.count = math.floor(math.log(math.max(ends, 1)) / math.log(2) + 0.5), ends > 0 and math.max(of.count, 1) or 0
  elseif of.count > 0 and call('STRLEN', of.directory) ~= 2 ^ of.depth then
    return {ok = 'damaged'}
  end
end

local function is_integer(text)
  return text == '0' or #text < 19 and string.find(text, '^-?[1-9]%d*$') ~= nil
end

-- The class of a member, or of a field with this value.
local function class_of(text, value)
  if value then return (#text > longest or #value > longest) and class.o or class.t end
  return not is_hash and is_integer(text) and class.i or #text > longest and class.o or class.t
end

local function hash_of(text) return tonumber(string.sub(redis.sha1hex(nonce .. text), 1, 8), 16) end

-- How deep the part lies that hashes with this end belong to.
local function depth_at(of, index) return string.byte(call('GETRANGE', of.directory, index, index)) end

local function part_name(of, depth, number) return of.directory .. string.format('%.0f', 2 ^ depth + number) end

-- The part that a text belongs to, how deep it lies, and the text's hash.
local function part_of(of, text)
  local hash, depth = hash_of(text), 0
  if of.count > 0 then
    depth = depth_at(of, hash % 2 ^ of.depth)
  end
  return part_name(of, depth, hash % 2 ^ depth), depth, hash
end

local function size_of(of, part) return call(of.is_set and 'SCARD' or 'HLEN', part) end
local function is_in(of, part, text) return call(of.is_set and 'SISMEMBER' or 'HEXISTS', part, text) == 1 end

-- The directory says of a part that it lies so deep.
local function note_depth(of, number, step, depth)
  for index = number, 2 ^ of.depth - 1, step do call('SETRANGE', of.directory, index, string.char(depth)) end
end

-- All that a part has: members, or fields and values.
local function all_of(of, part) return call(of.is_set and 'SMEMBERS' or 'HGETALL', part) end

local function add_all(of, part, texts)
  if #texts > 0 then call(of.is_set and 'SADD' or 'HSET', part, unpack(texts)) end
end

local function split(of, hash, depth)
  if depth == 24 then return end
  if depth == of.depth then
    local directory = call('GET', of.directory)
    call('SET', of.directory, directory .. directory)
    of.depth = depth + 1
  end
  local number, bit = hash % 2 ^ depth, 2 ^ depth
  local low = part_name(of, depth + 1, number)
  call('RENAME', part_name(of, depth, number), low)
  local texts, names, moved = all_of(of, low), {}, {}
  for index = 1, #texts, of.is_set and 1 or 2 do
    if math.floor(hash_of(texts[index]) / bit) % 2 == 1 then
      names[#names + 1], moved[#moved + 1] = texts[index], texts[index]
      if not of.is_set then moved[#moved + 1] = texts[index + 1] end
    end
  end
  if #names > 0 then
    call(of.is_set and 'SREM' or 'HDEL', low, unpack(names))
    add_all(of, part_name(of, depth + 1, number + bit), moved)
  end
  note_depth(of, number, bit, depth + 1)
end

-- Two parts that have become small are one again.
local function merge(of, hash, depth)
  local bit = 2 ^ (depth - 1)
  local number = hash % bit
  local low, high = part_name(of, depth, number), part_name(of, depth, number + bit)
  local beside = hash % 2 ^ depth == number and number + bit or number
  if depth_at(of, beside) ~= depth then return end
  local low_size, high_size = size_of(of, low), size_of(of, high)
  if low_size + high_size > of.most / 2 then return end
  local whole = part_name(of, depth - 1, number)
  if low_size == 0 then
    if high_size > 0 then call('RENAME', high, whole) end
  else
    if high_size > 0 then
      add_all(of, low, all_of(of, high))
      call('DEL', high)
    end
    call('RENAME', low, whole)
  end
  note_depth(of, number, bit, depth - 1)
  if depth == of.depth then
    local directory = call('GET', of.directory)
    if not string.find(directory, string.char(depth), 1, true) then
      call('SET', of.directory, string.sub(directory, 1, #directory / 2))
      of.depth = depth - 1
    end
  end
end

-- Counts that a part has so many more members than before, and makes two of it, or one of two.
local function count(of, more, part, depth, hash)
  if more == 0 then return end
  if of.count == 0 then
    call('SET', of.directory, '\0')
    of.depth = 0
  end
  of.count, changed = of.count + more, true
  local size = size_of(of, part)
  if more > 0 and size > of.most then split(of, hash, depth) end
  if more < 0 and of.count == 0 then
    call('DEL', of.directory)
    of.depth = 0
  elseif more < 0 and depth > 0 and size * 6 < of.most then
    merge(of, hash, depth)
  end
end

local function add(of, text, value)
  local part, depth, hash = part_of(of, text)
  local is_new = of.is_set and call('SADD', part, text) or call('HSET', part, text, value or '')
  changed = changed or is_hash
  count(of, is_new, part, depth, hash)
  return is_new
end

local function remove(of, text)
  if of.count == 0 then return 0 end
  local part, depth, hash = part_of(of, text)
  local was_there = call(of.is_set and 'SREM' or 'HDEL', part, text)
  count(of, -was_there, part, depth, hash)
  return was_there
end

-- The class and the part in which a member or a field lies; those in which it would lie where it is nowhere.
local function find(text)
  local of = class_of(text)
  local part = part_of(of, text)
  if is_hash and of == class.t and class.o.count > 0 and not (of.count > 0 and is_in(of, part, text)) then
    local other = part_of(class.o, text)
    if is_in(class.o, other, text) then return class.o, other end
  end
  return of, part
end

-- Members, or fields' names, of a part.
local function names_of(of, part) return call(of.is_set and 'SMEMBERS' or 'HKEYS', part) end

-- A number's last bits, the other way round.
local function reversed(number, bits)
  local result = 0
  for _ = 1, bits do
    result, number = result * 2 + number % 2, math.floor(number / 2)
  end
  return result
end

-- Walks go by hashes whose last 24 bits are turned round: so each part covers what follows one another, and goes on to where the next
-- begins, whatever is halved or joined meanwhile. The part at a position, and from where to where it goes.
local function part_at(of, position)
  local index = reversed(position, 24) % 2 ^ of.depth
  local depth = depth_at(of, index)
  local number, width = index % 2 ^ depth, 2 ^ (24 - depth)
  local start = reversed(number, depth) * width
  return part_name(of, depth, number), start, start + width
end

-- Appends what lies there.
local function append_between(of, from, to, with_values, list)
  local at = from
  while at < to do
    local part, start, stop = part_at(of, at)
    local texts, step = (with_values and all_of or names_of)(of, part), with_values and 2 or 1
    for index = 1, #texts, step do
      local position = start >= from and stop <= to and from or reversed(hash_of(texts[index]) % 2 ^ 24, 24)
      if position >= from and position < to then
        for beside = index, index + step - 1 do list[#list + 1] = texts[beside] end
      end
    end
    at = stop
  end
end

-- A member by chance, its class and its part: ends of hashes are drawn, and each part that is met is taken as often as it has members.
-- None where that comes to nothing, as parts are damaged.
local function draw()
  local at, of = math.random() * total, class.o
  if at < class.i.count then of = class.i elseif at < class.i.count + class.t.count then of = class.t end
  if of.count == 0 then return end
  for _ = 1, 2000 do
    local index = math.random(0, 2 ^ of.depth - 1)
    local depth = depth_at(of, index)
    local part = part_name(of, depth, index % 2 ^ depth)
    local size = size_of(of, part)
    if size > 0 and (of.depth == 0 or math.random() * of.most * 2 ^ (of.depth - depth) < size) then
      return call(of.is_set and 'SRANDMEMBER' or 'HRANDFIELD', part), of, part
    end
  end
end

local function write_header()
  if not changed then return end
  call('HSET', bucket, field, string.sub(stored, 1, at + 7) .. struct.pack('>I6c1BI5BI5BI5', (version + 1) % 2 ^ 48, form,
    class.i.depth, class.i.count, class.t.depth, class.t.count, class.o.depth, class.o.count))
end

local answer = 0
if what == 'HAS' or what == 'GET' or what == 'LENGTH' then
  local command = what == 'GET' and 'HGET' or what == 'LENGTH' and 'HSTRLEN'
  answer = {}
  for word = first, #ARGV do
    local of, part = find(ARGV[word])
    if of.count == 0 then
      answer[#answer + 1] = what ~= 'GET' and 0
    elseif command then
      answer[#answer + 1] = call(command, part, ARGV[word])
    else
      answer[#answer + 1] = is_in(of, part, ARGV[word]) and 1 or 0
    end
  end
elseif what == 'ALL' then
  if total > tonumber(ARGV[first]) then return {stored, total} end
  answer = {stored}
  -- They may have been changed after their header was seen.
  if was_replaced then answer[2] = {ok = 'replaced'} end
  for _, letter in ipairs({'i', 't', 'o'}) do
    local of = class[letter]
    local directory = of.count > 0 and call('GET', of.directory) or ''
    for index = 0, #directory - 1 do
      local depth = string.byte(directory, index + 1)
      if index < 2 ^ depth then
        local part = part_name(of, depth, index)
        answer[#answer + 1] = (is_hash and all_of or names_of)(of, part)
      end
    end
  end
elseif what == 'DRAW' then
  local wanted, may_repeat, with_values = tonumber(ARGV[first + 1]), ARGV[first + 2] == '1', ARGV[first + 3] == '1'
  if not may_repeat and wanted * 2 > total then return unsure end
  math.randomseed(tonumber(ARGV[first]))
  local drawn, count = {}, 0
  answer = {}
  while count < wanted do
    local text, _, part = draw()
    if not text then return unsure end
    if may_repeat or not drawn[text] then
      drawn[text], count, answer[#answer + 1] = true, count + 1, text
      if with_values then answer[#answer + 1] = call('HGET', part, text) end
    end
  end
elseif what == 'TAKE' then
  local wanted = tonumber(ARGV[first + 1])
  if total - wanted <= fewest then return unsure end
  math.randomseed(tonumber(ARGV[first]))
  answer = {}
  while #answer < wanted do
    local text, of = draw()
    if not text and #answer == 0 then return unsure end
    if not text then break end
    remove(of, text)
    answer[#answer + 1], total = text, total - 1
  end
elseif what == 'WALK' then
  local from, wanted, with_values = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), ARGV[first + 2] == '1'
  local lead = class.t
  for _, of in pairs(class) do lead = of.count > lead.count and of or lead end
  answer = {'0'}
  while from < 2 ^ 24 and #answer <= wanted * (with_values and 2 or 1) do
    local _, _, to = part_at(lead, from)
    for _, of in pairs(class) do
      if of.count > 0 then append_between(of, from, to, with_values, answer) end
    end
    from = to
  end
  if from < 2 ^ 24 then answer[1] = string.format('%.0f', from) end
elseif what == 'ADD' and not is_hash then
  for word = first, #ARGV do answer = answer + add(class_of(ARGV[word]), ARGV[word]) end
elseif what == 'ADD' or what == 'NEW' then
  for word = first, #ARGV, 2 do
    local name, value = ARGV[word], ARGV[word + 1]
    local to = class_of(name, value)
    local from, part = find(name)
    local is_there = from.count > 0 and is_in(from, part, name)
    if not is_there then
      answer = answer + add(to, name, value)
    elseif what == 'ADD' then
      if from ~= to then remove(from, name) end
      add(to, name, value)
    end
  end
elseif what == 'REMOVE' then
  if total - (#ARGV - first + 1) <= fewest then return unsure end
  for word = first, #ARGV do answer = answer + remove((find(ARGV[word])), ARGV[word]) end
elseif what == 'HINCRBY' or what == 'HINCRBYFLOAT' then
  local of, part = find(ARGV[first])
  local _, depth, hash = part_of(of, ARGV[first])
  local is_new = not (of.count > 0 and is_in(of, part, ARGV[first]))
  answer = redis.pcall(what, part, ARGV[first], ARGV[first + 1])
  if type(answer) == 'table' and answer.err then return answer end
  -- As a text: Lua hasn't all integers exactly. The part may be another one after it.
  answer = call('HGET', part, ARGV[first])
  changed = true
  count(of, is_new and 1 or 0, part, depth, hash)
else
  return unsure
end
write_header()
return answer
