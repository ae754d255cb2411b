-- keyfold: commands on members of one set or hash that lies in parts (crates/core/src/collection/parts/mod.rs draws how), at one
-- moment and in their order. What isn't in parts, or not as it is read here, is left as it is and answered by "?", with all that
-- follows; whoever sent the command works it out then.
-- KEYS: the bucket. ARGV: whether other commands may be joined to these, for who sends them; the field; what the names of parts
-- begin with; how long a text in a part of texts may be; how many integers a part may have, and how many texts; how few members are to be
-- packed again; what the field held when it was seen, for who only reads. Then of each command what to do, how many words that
-- needs, and these: members, or fields with values. Answers each command in an array, or the only one as it is.
-- Who only reads is told what was there when the field was seen: where it holds something else by now, as the client has sent
-- a DEL behind, the parts that it pointed to are still there for a while.
-- Most of the time of a short script goes into making functions and tables: what is seldom needed is made where it is.
local call, argv, bucket, field = redis.call, ARGV, KEYS[1], ARGV[2]
local longest, fewest, seen, last = tonumber(argv[4]), tonumber(argv[7]), argv[8], #argv

-- The header: a frame that points to parts.
local unsure = {ok = '?'}
local function nonce_at(frame)
  local tag = frame and string.byte(frame)
  local at = tag == 8 and 2 or tag == 9 and 7 or tag == 10 and 10
  return at and #frame == at + 32 and at
end
local stored, was_replaced = call('HGET', bucket, field), false
local at = nonce_at(stored)
local seen_at = seen ~= '' and nonce_at(seen)
if seen_at and not (at and string.sub(stored, at, at + 7) == string.sub(seen, seen_at, seen_at + 7)) then
  stored, at, was_replaced = seen, seen_at, true
end
if not at then return unsure end
if at > 2 then
  local time = call('TIME')
  local expiry = at == 7 and struct.unpack('>I5', stored, 2) + 1577836800000 or struct.unpack('>i8', stored, 2)
  -- From the next millisecond on it is over.
  if expiry + 1 <= time[1] * 1000 + time[2] / 1000 then return unsure end
end
local nonce = string.format('%08x%08x', struct.unpack('>I4I4', stored, at))
local base = argv[3] .. nonce
if string.byte(base, 2) == 123 then
  -- Before a cluster: while their slot is moved key by key some parts are at one node and some at the other, and a node takes those
  -- for absent. It says so only of several keys at once that aren't there.
  local found = redis.pcall('EXISTS', base .. '<', base .. '>')
  if type(found) == 'table' then
    if not string.find(found.err, 'in a cluster', 1, true) and not string.find(found.err, 'rehashing', 1, true) then return found end
    return {err = 'TRYAGAIN keyfold: a large set or hash waits while its slot moves'}
  end
end
local version, form, integers_depth, integer_count, texts_depth, text_count, outliers_depth, outlier_count =
  struct.unpack('>I6c1BI5BI5BI5', stored, at + 8)
local is_hash = form == 'F'
if was_replaced then
  -- What has no owner any more, or will soon have none, may be gone in part.
  local left = call('PTTL', base)
  if left ~= -1 and left < 1000 then return unsure end
end

-- What is of one class.
local function class(letter, depth, count, most, is_set)
  return {directory = base .. letter, depth = depth, count = count, most = most, is_set = is_set}
end
local integers = class('i', integers_depth, integer_count, tonumber(argv[5]), not is_hash)
local texts = class('t', texts_depth, text_count, tonumber(argv[6]), form == 'S')
local outliers = class('o', outliers_depth, outlier_count, tonumber(argv[6]), not is_hash)
local changed = false
local function total() return integers.count + texts.count + outliers.count end

-- Whether a class's directory is not what the header says.
local function is_damaged(of)
  if was_replaced then
    -- It was changed after it was seen, perhaps.
    local ends = call('STRLEN', of.directory)
    of.depth, of.count = math.floor(math.log(math.max(ends, 1)) / math.log(2) + 0.5), ends > 0 and math.max(of.count, 1) or 0
    return false
  end
  return of.count > 0 and call('STRLEN', of.directory) ~= 2 ^ of.depth
end
if is_damaged(integers) or is_damaged(texts) or is_damaged(outliers) then return {ok = 'damaged'} end

local function is_integer(text)
  return text == '0' or #text < 19 and string.find(text, '^-?[1-9]%d*$') ~= nil
end

-- The class of a member, or of a field with this value.
local function class_of(text, value)
  if value then return (#text > longest or #value > longest) and outliers or texts end
  return not is_hash and is_integer(text) and integers or #text > longest and outliers or texts
end

local function hash_of(text) return tonumber(string.sub(redis.sha1hex(nonce .. text), 1, 8), 16) end

-- How deep the part lies that hashes with this end belong to.
local function depth_at(of, index)
  local place = string.format('%d', index)
  return string.byte(call('GETRANGE', of.directory, place, place))
end

local function part_name(of, depth, number) return of.directory .. 2 ^ depth + number end

-- The part that a text belongs to, how deep it lies, and the text's hash.
local function part_of(of, text)
  local hash, depth = hash_of(text), 0
  if of.count > 0 then depth = depth_at(of, hash % 2 ^ of.depth) end
  return part_name(of, depth, hash % 2 ^ depth), depth, hash
end

local function is_in(of, part, text) return call(of.is_set and 'SISMEMBER' or 'HEXISTS', part, text) == 1 end

-- All that a part has: members, or fields and values. Members, or fields' names.
local function all_of(of, part) return call(of.is_set and 'SMEMBERS' or 'HGETALL', part) end
local function names_of(of, part) return call(of.is_set and 'SMEMBERS' or 'HKEYS', part) end

-- Makes two of a part that is full, or one of two that have become small.
local function resize(of, is_full, depth, hash)
  -- The directory says of parts that they lie so deep.
  local function note_depth(number, step, deeper)
    for index = number, 2 ^ of.depth - 1, step do call('SETRANGE', of.directory, index, string.char(deeper)) end
  end
  local function add_all(part, some)
    if #some > 0 then call(of.is_set and 'SADD' or 'HSET', part, unpack(some)) end
  end
  if is_full then
    if depth == 24 then return end
    if depth == of.depth then
      local directory = call('GET', of.directory)
      call('SET', of.directory, directory .. directory)
      of.depth = depth + 1
    end
    local number, bit = hash % 2 ^ depth, 2 ^ depth
    local low = part_name(of, depth + 1, number)
    call('RENAME', part_name(of, depth, number), low)
    local all, names, moved = all_of(of, low), {}, {}
    for index = 1, #all, of.is_set and 1 or 2 do
      if math.floor(hash_of(all[index]) / bit) % 2 == 1 then
        names[#names + 1], moved[#moved + 1] = all[index], all[index]
        if not of.is_set then moved[#moved + 1] = all[index + 1] end
      end
    end
    if #names > 0 then
      call(of.is_set and 'SREM' or 'HDEL', low, unpack(names))
      add_all(part_name(of, depth + 1, number + bit), moved)
    end
    return note_depth(number, bit, depth + 1)
  end
  local function size_of(part) return call(of.is_set and 'SCARD' or 'HLEN', part) end
  local bit = 2 ^ (depth - 1)
  local number = hash % bit
  local low, high = part_name(of, depth, number), part_name(of, depth, number + bit)
  local beside = hash % 2 ^ depth == number and number + bit or number
  if depth_at(of, beside) ~= depth then return end
  local low_size, high_size = size_of(low), size_of(high)
  if low_size + high_size > of.most / 2 then return end
  local whole = part_name(of, depth - 1, number)
  if low_size == 0 then
    if high_size > 0 then call('RENAME', high, whole) end
  else
    if high_size > 0 then
      add_all(low, all_of(of, high))
      call('DEL', high)
    end
    call('RENAME', low, whole)
  end
  note_depth(number, bit, depth - 1)
  if depth == of.depth then
    local directory = call('GET', of.directory)
    if not string.find(directory, string.char(depth), 1, true) then
      call('SET', of.directory, string.sub(directory, 1, #directory / 2))
      of.depth = depth - 1
    end
  end
end

-- Counts that a part has so many more members than before.
local function count(of, more, part, depth, hash)
  if more == 0 then return end
  if of.count == 0 then
    call('SET', of.directory, '\0')
    of.depth = 0
  end
  of.count, changed = of.count + more, true
  if of.count == 0 then
    call('DEL', of.directory)
    of.depth = 0
    return
  end
  local size = call(of.is_set and 'SCARD' or 'HLEN', part)
  local is_full = more > 0 and size > of.most
  if is_full or more < 0 and depth > 0 and size * 6 < of.most then resize(of, is_full, depth, hash) end
end

-- How many members are new by it; the server's error where it takes none. Nothing has been written then.
local function add(of, text, value)
  local part, depth, hash = part_of(of, text)
  local is_new
  if of.is_set then is_new = redis.pcall('SADD', part, text) else is_new = redis.pcall('HSET', part, text, value or '') end
  if type(is_new) == 'table' then return 0, is_new end
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
  if is_hash and of == texts and outliers.count > 0 and not (of.count > 0 and is_in(of, part, text)) then
    local other = part_of(outliers, text)
    if is_in(outliers, other, text) then return outliers, other end
  end
  return of, part
end

-- What walks and draws have: seldom asked for.
local function excerpt(what, first)
  local total = total()
  -- A number's last bits, the other way round.
  local function reversed(number, bits)
    local result = 0
    for _ = 1, bits do
      result, number = result * 2 + number % 2, math.floor(number / 2)
    end
    return result
  end
  -- Walks go by hashes whose last 24 bits are turned round: so each part covers what follows one another, and goes on to where the
  -- next begins, whatever is halved or joined meanwhile. The part at a position, and from where to where it goes.
  local function part_at(of, position)
    local index = reversed(position, 24) % 2 ^ of.depth
    local depth = depth_at(of, index)
    local number, width = index % 2 ^ depth, 2 ^ (24 - depth)
    local start = reversed(number, depth) * width
    return part_name(of, depth, number), start, start + width
  end
  -- Appends what lies there.
  local function append_between(of, from, to, with_values, list)
    local position_at = from
    while position_at < to do
      local part, start, stop = part_at(of, position_at)
      local all, step = (with_values and all_of or names_of)(of, part), with_values and 2 or 1
      for index = 1, #all, step do
        local position = start >= from and stop <= to and from or reversed(hash_of(all[index]) % 2 ^ 24, 24)
        if position >= from and position < to then
          for beside = index, index + step - 1 do list[#list + 1] = all[beside] end
        end
      end
      position_at = stop
    end
  end
  -- A member by chance, its class and its part: ends of hashes are drawn, and each part that is met is taken as often as it has
  -- members. None where that comes to nothing, as parts are damaged.
  local function draw()
    local drawn, of = math.random() * total, outliers
    if drawn < integers.count then of = integers elseif drawn < integers.count + texts.count then of = texts end
    if of.count == 0 then return end
    for _ = 1, 2000 do
      local index = math.random(0, 2 ^ of.depth - 1)
      local depth = depth_at(of, index)
      local part = part_name(of, depth, index % 2 ^ depth)
      local size = call(of.is_set and 'SCARD' or 'HLEN', part)
      if size > 0 and (of.depth == 0 or math.random() * of.most * 2 ^ (of.depth - depth) < size) then
        return call(of.is_set and 'SRANDMEMBER' or 'HRANDFIELD', part), of, part
      end
    end
  end

  local answer = {}
  if what == 'DRAW' then
    local wanted, may_repeat, with_values = tonumber(argv[first + 1]), argv[first + 2] == '1', argv[first + 3] == '1'
    if not may_repeat and wanted * 2 > total then return unsure end
    math.randomseed(tonumber(argv[first]))
    local drawn, drawn_count = {}, 0
    while drawn_count < wanted do
      local text, _, part = draw()
      if not text then return unsure end
      if may_repeat or not drawn[text] then
        drawn[text], drawn_count, answer[#answer + 1] = true, drawn_count + 1, text
        if with_values then answer[#answer + 1] = call('HGET', part, text) end
      end
    end
  elseif what == 'TAKE' then
    local wanted = tonumber(argv[first + 1])
    if total - wanted <= fewest then return unsure end
    math.randomseed(tonumber(argv[first]))
    while #answer < wanted do
      local text, of = draw()
      if not text and #answer == 0 then return unsure end
      if not text then break end
      remove(of, text)
      answer[#answer + 1], total = text, total - 1
    end
  else
    local from, wanted, with_values = tonumber(argv[first]), tonumber(argv[first + 1]), argv[first + 2] == '1'
    local classes, lead = {integers, texts, outliers}, texts
    for _, of in ipairs(classes) do lead = of.count > lead.count and of or lead end
    answer[1] = '0'
    while from < 2 ^ 24 and #answer <= wanted * (with_values and 2 or 1) do
      local _, _, to = part_at(lead, from)
      for _, of in ipairs(classes) do
        if of.count > 0 then append_between(of, from, to, with_values, answer) end
      end
      from = to
    end
    if from < 2 ^ 24 then answer[1] = string.format('%.0f', from) end
  end
  return answer
end

-- Once a script has written anything, a full server takes all that it writes: what makes more of it is told the server's error,
-- as if what makes less had not gone before.
local refusal
local answers, stopped, word = {}, false, 9
repeat
  local what, first = argv[word], word + 2
  local final, answer = word + 1 + argv[word + 1], 0
  word = final + 1
  if stopped then
    answer = unsure
  elseif what == 'HAS' or what == 'GET' or what == 'LENGTH' then
    local command = what == 'GET' and 'HGET' or what == 'LENGTH' and 'HSTRLEN'
    answer = {}
    for index = first, final do
      local of, part = find(argv[index])
      if of.count == 0 then
        answer[#answer + 1] = what ~= 'GET' and 0
      elseif command then
        answer[#answer + 1] = call(command, part, argv[index])
      else
        answer[#answer + 1] = is_in(of, part, argv[index]) and 1 or 0
      end
    end
  elseif what == 'ADD' or what == 'NEW' or what == 'HINCRBY' or what == 'HINCRBYFLOAT' then
    local failed = refusal
    if failed then
      -- Nothing is done.
    elseif what == 'ADD' and not is_hash then
      for index = first, final do
        local is_new
        is_new, failed = add(class_of(argv[index]), argv[index])
        if failed then break end
        answer = answer + is_new
      end
    elseif what == 'ADD' or what == 'NEW' then
      for index = first, final, 2 do
        local name, value = argv[index], argv[index + 1]
        local to = class_of(name, value)
        local from, part = find(name)
        local is_there = from.count > 0 and is_in(from, part, name)
        local is_new = 0
        if not is_there then
          is_new, failed = add(to, name, value)
        elseif what == 'ADD' then
          failed = select(2, add(to, name, value))
          if from ~= to and not failed then remove(from, name) end
        end
        if failed then break end
        answer = answer + is_new
      end
    else
      local of, part = find(argv[first])
      local _, depth, hash = part_of(of, argv[first])
      local is_new = not (of.count > 0 and is_in(of, part, argv[first]))
      answer = redis.pcall(what, part, argv[first], argv[first + 1])
      if type(answer) == 'table' and answer.err then
        failed = answer
      else
        -- As a text: Lua hasn't all integers exactly. The part may be another one after it.
        answer = call('HGET', part, argv[first])
        changed = true
        count(of, is_new and 1 or 0, part, depth, hash)
      end
    end
    if failed then
      answer = failed
      if string.find(failed.err, 'OOM', 1, true) then refusal = failed end
    end
  elseif what == 'REMOVE' then
    if refusal == nil and not changed and word <= last then
      refusal = redis.pcall('HSETNX', bucket, field, '')
      refusal = type(refusal) == 'table' and refusal
    end
    if total() - (final - first + 1) <= fewest then
      answer = unsure
    else
      for index = first, final do answer = answer + remove((find(argv[index])), argv[index]) end
    end
  elseif what == 'ALL' then
    answer = {stored, total()}
    if answer[2] <= tonumber(argv[first]) then
      -- They may have been changed after their header was seen.
      answer[2] = was_replaced and {ok = 'replaced'} or nil
      local half = final > first and argv[final]
      for _, of in ipairs({integers, texts, outliers}) do
        local directory = of.count > 0 and call('GET', of.directory) or ''
        for index = 0, #directory - 1 do
          local depth = string.byte(directory, index + 1)
          if index < 2 ^ depth then
            local part = part_name(of, depth, index)
            answer[#answer + 1] = half and call(half, part) or (is_hash and all_of or names_of)(of, part)
          end
        end
      end
    end
  elseif what == 'DRAW' or what == 'TAKE' or what == 'WALK' then
    answer = excerpt(what, first)
  else
    answer = unsure
  end
  stopped = stopped or answer == unsure
  answers[#answers + 1] = answer
until word > last
if changed then
  call('HSET', bucket, field, string.sub(stored, 1, at + 7) .. struct.pack('>I6c1BI5BI5BI5', (version + 1) % 2 ^ 48, form,
    integers.depth, integers.count, texts.depth, texts.count, outliers.depth, outliers.count))
end
return answers[2] ~= nil and answers or answers[1]
