-- keyfold: commands on members of one set or hash that lies in parts (crates/core/src/collection/parts/mod.rs draws how), at one
-- moment and in their order. What isn't in parts, or not as it is read here, is left as it is and answered by "?", with all that
-- follows; whoever sent the command works it out then.
-- KEYS: the bucket. ARGV: whether other commands may be joined to these, for who sends them; the field; what the names of parts
-- begin with; how long a text in a part of texts may be; how many integers a part may have, and how many texts; how few members are to be
-- packed again; what the field held when it was seen and, behind that, the key, for who only reads; of which parts hints are, by their nonce. Then of each command
-- what to do, how many words that needs, and these: members, or fields with values. Answers each command in an array, or the only one as it is.
-- Who only reads is told what was there when the field was seen: where it holds something else by now, as the client has sent
-- a DEL behind, the parts that it pointed to are still there for a while, unless they are another key's by now, which may have others written.
-- Commands in small letters come with hints: before each member or field stands in which part it lies, as far as that is known, by the
-- end of its name. Where there is such a part the hint is right, since halves and wholes have other names; else the directory is asked,
-- and the answer comes with better hints, behind a "~". Those of one letter have one member or field each, and no number of words.
-- TELL isn't one, and isn't answered: its words are what is published of the command behind it.
-- Most of the time of a short script goes into making functions and tables: what is seldom needed is made where it is.
local call, argv, bucket, field = redis.call, ARGV, KEYS[1], ARGV[2]
local longest, fewest, seen, last = tonumber(argv[4]), tonumber(argv[7]), argv[8], #argv

-- The header: a frame that points to parts, by a nonce of 8 bytes and 34 that say how they lie.
local unsure, damaged, pointer = {ok = '?'}, {ok = 'damaged'}, 8 + 34
local function nonce_at(frame)
  local tag = frame and string.byte(frame)
  return tag == 8 and 2 or tag == 9 and 7 or tag == 10 and 10
end
local stored, was_replaced = call('HGET', bucket, field), false
local at, seen_at = nonce_at(stored), nonce_at(seen)
if at and #stored ~= at + pointer - 1 then at = nil end
if seen_at and not (at and string.sub(stored, at, at + 7) == string.sub(seen, seen_at, seen_at + 7)) then
  stored, at, was_replaced = string.sub(seen, 1, seen_at + pointer - 1), seen_at, true
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
local version, form, integers_depth, integer_count, texts_depth, text_count, outliers_depth, outlier_count, way, seed_high, seed_low =
  struct.unpack('>I6c1BI5BI5BI5BI4I4', stored, at + 8)
local is_hash = form == 'F'
if was_replaced then
  -- What has no owner any more, or will soon have none, may be gone in part; that of nobody stays what it was until then.
  local left, owner = call('PTTL', base), call('GET', base)
  if left ~= -1 and left < 1000 or owner ~= '' and owner ~= string.sub(seen, seen_at + pointer) then return unsure end
end

-- What is of one class.
local function class(letter, depth, count, most, is_set)
  return {directory = base .. letter, depth = depth, count = count, most = most, is_set = is_set}
end
local integers = class('i', integers_depth, integer_count, tonumber(argv[5]), not is_hash)
local texts = class('t', texts_depth, text_count, tonumber(argv[6]), form == 'S')
local outliers = class('o', outliers_depth, outlier_count, tonumber(argv[6]), not is_hash)
local changed = false
-- Members that lie in no part while the collection is moved. They come into parts, or else those in parts come there.
local drains, fills = 1, 2
local course, turns = way % 4, math.floor(way / 4)
local remainder
local function with_remainder()
  local name = base .. 'r'
  remainder = {name = name, is_set = not is_hash, count = call(is_hash and 'HLEN' or 'SCARD', name)}
end
if course > 0 or was_replaced and call('EXISTS', base .. 'r') == 1 then with_remainder() end
local function total() return integers.count + texts.count + outliers.count + (remainder and remainder.count or 0) end
local function size_of(of, part) return call(of.is_set and 'SCARD' or 'HLEN', part) end

-- What goes by the directories, which tell of each hash in which part it lies.
local directories
local function by_directories()
  if directories then return directories end
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

  local function is_integer(text)
    return text == '0' or #text < 19 and string.find(text, '^-?[1-9]%d*$') ~= nil
  end

  -- The class of a member, or of a field with this value.
  local function class_of(text, value)
    if value then return (#text > longest or #value > longest) and outliers or texts end
    return not is_hash and is_integer(text) and integers or #text > longest and outliers or texts
  end

  local seed = string.format('%08x%08x', seed_high, seed_low)
  local function hash_of(text) return tonumber(string.sub(redis.sha1hex(seed .. text), 1, 8), 16) end

  -- How deep the part lies that hashes with this end belong to.
  local function depth_at(of, index)
    local place = string.format('%d', index)
    return string.byte(call('GETRANGE', of.directory, place, place))
  end

  local function part_name(of, depth, number) return of.directory .. 2 ^ depth + number end

  -- The part that a text belongs to, how deep it lies, and the text's hash.
  local function part_of(of, text)
    if of == remainder then return of.name end
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
    if of == remainder then
      of.count, changed = of.count + more, true
      return
    end
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
    local size = size_of(of, part)
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
    if remainder and is_in(remainder, remainder.name, text) then return remainder, remainder.name end
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
    -- By chance, from 0 to less than 1: two generators of Lehmer's joined, as L'Ecuyer has them. Lua's own is the user's, where this is
    -- part of a script of theirs.
    local one, two
    local function random()
      one, two = one * 40014 % 2147483563, two * 40692 % 2147483399
      return (one - two) % 2147483562 / 2147483562
    end
    local function seed_random(seed)
      one, two = 1 + seed % 2147483562, 1 + math.floor(seed / 7) % 2147483398
      for _ = 1, 4 do random() end
    end
    -- A member by chance, its class and its part: ends of hashes are drawn, and each part that is met is taken as often as it has
    -- members. None where that comes to nothing, as parts are damaged.
    local function draw()
      local drawn, of = random() * total, outliers
      if remainder then
        if drawn < remainder.count then
          return call(is_hash and 'HRANDFIELD' or 'SRANDMEMBER', remainder.name), remainder, remainder.name
        end
        drawn = drawn - remainder.count
      end
      if drawn < integers.count then of = integers elseif drawn < integers.count + texts.count then of = texts end
      if of.count == 0 then return end
      for _ = 1, 2000 do
        local index = math.floor(random() * 2 ^ of.depth)
        local depth = depth_at(of, index)
        local part = part_name(of, depth, index % 2 ^ depth)
        local size = size_of(of, part)
        if size > 0 and (of.depth == 0 or random() * of.most * 2 ^ (of.depth - depth) < size) then
          return call(of.is_set and 'SRANDMEMBER' or 'HRANDFIELD', part), of, part
        end
      end
    end

    local answer = {}
    if what == 'DRAW' then
      local wanted, may_repeat, with_values = tonumber(argv[first + 1]), argv[first + 2] == '1', argv[first + 3] == '1'
      if not may_repeat and wanted * 2 > total then return unsure end
      seed_random(tonumber(argv[first]))
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
      seed_random(tonumber(argv[first]))
      while #answer < wanted do
        local text, of = draw()
        if not text and #answer == 0 then return unsure end
        if not text then break end
        remove(of, text)
        answer[#answer + 1], total = text, total - 1
      end
    else
      local from, wanted, with_values = tonumber(argv[first]), tonumber(argv[first + 1]), argv[first + 2] == '1'
      -- A walk comes first to where what it will see later can only leave for: to the remainder and then to parts, or the other way
      -- round where those in parts come to the remainder. Once the move has been turned it begins anew. Its cursor says at what it is
      -- and after how many turns; then, by 42 bits, where. What becomes a key of its own meanwhile is walked on by the server, which looks
      -- at the last bits: they are zero, so that it begins, but for where all that was in parts has been seen.
      local at_remainder, at_parts, at_end = 0, 1, 2
      local stage, place, of_turn = math.floor(from / 2 ^ 42) - 1, from % 2 ^ 42, 0
      if stage < 0 then from = 0 else stage, of_turn = math.floor(stage / 64), stage % 64 end
      if of_turn ~= turns or course == fills and stage == at_remainder then from = 0 end
      if from == 0 then stage, place = at_remainder, 0 end
      if stage == at_remainder and course ~= drains then stage, place = at_parts, 0 end
      local function go_on(stage, place)
        answer[1] = string.format('%.0f', place + (1 + 64 * stage + turns) * 2 ^ 42)
      end
      if stage ~= at_parts then
        if not remainder then with_remainder() end
        local bits = stage == at_remainder and 2 ^ 16 or 1
        local page = call(is_hash and 'HSCAN' or 'SSCAN', remainder.name, string.format('%.0f', place / bits), 'COUNT', wanted)
        if page[1] ~= '0' then go_on(stage, page[1] * bits)
        elseif stage == at_remainder then go_on(at_parts, 0)
        else answer[1] = '0' end
        for index = 1, #page[2], is_hash and 2 or 1 do
          answer[#answer + 1] = page[2][index]
          if with_values then answer[#answer + 1] = page[2][index + 1] end
        end
        return answer
      end
      local position, classes, lead = place / 2 ^ 26 * 256, {integers, texts, outliers}, texts
      for _, of in ipairs(classes) do lead = of.count > lead.count and of or lead end
      answer[1] = '0'
      if lead.count == 0 then position = 2 ^ 24 end
      while position < 2 ^ 24 and (#answer <= wanted * (with_values and 2 or 1) or position % 256 > 0) do
        local _, _, to = part_at(lead, position)
        for _, of in ipairs(classes) do
          if of.count > 0 then append_between(of, position, to, with_values, answer) end
        end
        position = to
      end
      if position < 2 ^ 24 then go_on(at_parts, position / 256 * 2 ^ 26) elseif course == fills then go_on(at_end, 0) end
    end
    return answer
  end

  -- Sets a field, where it isn't there or else as well; how many are new by it, and the server's error where it takes none.
  local function set_field(name, value, only_new)
    local to = class_of(name, value)
    local from, part = find(name)
    if not (from.count > 0 and is_in(from, part, name)) then return add(course == fills and remainder or to, name, value) end
    if only_new then return 0 end
    if from == remainder then to = remainder end
    local _, failed = add(to, name, value)
    if from ~= to and not failed then remove(from, name) end
    return 0, failed
  end

  -- The same of a member of a set.
  local function add_member(text)
    if remainder then
      local of, part = find(text)
      if of.count > 0 and is_in(of, part, text) then return 0 end
      if course == fills then return add(remainder, text) end
    end
    return add(class_of(text), text)
  end

  -- Notes which way members go by now.
  local function turn(new_course)
    if course > 0 and (course == fills) ~= (new_course == fills) then turns = (turns + 1) % 64 end
    course, changed = new_course, true
  end

  -- Brings so many members of the remainder to where they belong; how many are left, and the server's error where it takes none. Without
  -- a remainder nothing is left to be done.
  local function drain(most)
    if not remainder then return unsure end
    local some, names = {}, {}
    if remainder.count > 0 then
      some = is_hash and call('HRANDFIELD', remainder.name, most, 'WITHVALUES') or call('SRANDMEMBER', remainder.name, most)
    end
    for index = 1, #some, is_hash and 2 or 1 do
      local text, value = some[index], is_hash and some[index + 1] or nil
      local _, failed = add(class_of(text, value), text, value)
      if failed then return 0, failed end
      names[#names + 1] = text
    end
    if #names > 0 then call(is_hash and 'HDEL' or 'SREM', remainder.name, unpack(names)) end
    remainder.count = remainder.count - #names
    turn(remainder.count > 0 and drains or 0)
    return remainder.count
  end

  -- Brings so many members and some more from their parts to the remainder, from this place on in the directory of the first class that has
  -- any; where it goes on, and how many are left.
  local function fill(most, position)
    if not remainder then with_remainder() end
    local brought = 0
    for _, of in ipairs({integers, texts, outliers}) do
      local directory, from = of.count > 0 and call('GET', of.directory) or '', position
      for index = position, #directory - 1 do
        local depth = string.byte(directory, index + 1)
        local part = part_name(of, depth, index)
        local all = index < 2 ^ depth and (is_hash and all_of or names_of)(of, part) or {}
        if #all > 0 then
          local count = #all / (is_hash and 2 or 1)
          -- Members that the header doesn't know of would be given up with the directory.
          local has_more = count > of.count
          if count == of.count then
            for behind = index + 1, #directory - 1 do
              local deep = string.byte(directory, behind + 1)
              has_more = has_more or behind < 2 ^ deep and size_of(of, part_name(of, deep, behind)) > 0
            end
          end
          if has_more then return damaged end
          local failed = redis.pcall(is_hash and 'HSET' or 'SADD', remainder.name, unpack(all))
          if type(failed) == 'table' then return failed end
          turn(fills)
          call('DEL', part)
          of.count, brought = of.count - count, brought + count
          if of.count == 0 then
            call('DEL', of.directory)
            of.depth = 0
            break
          elseif brought >= most then
            return {index + 1, total() - remainder.count}
          end
        end
      end
      -- What is left in parts that were joined behind this place is come to by the next round, unless they all were empty in this one.
      if of.count > 0 and from == 0 and brought == 0 then return damaged end
      if of.count > 0 then return {0, total() - remainder.count} end
      if directory ~= '' then position = 0 end
    end
    turn(fills)
    return {0, 0}
  end

  -- What is to be read of a member or field.
  local function read(what, text)
    local of, part = find(text)
    if of.count == 0 then return what ~= 'GET' and 0 end
    if what == 'HAS' then return is_in(of, part, text) and 1 or 0 end
    return call(what == 'GET' and 'HGET' or 'HSTRLEN', part, text)
  end

  -- The end of the name of the part in which a text lies, or would lie with this value.
  local function hint_of(text, value)
    if remainder then return end
    local of = value and class_of(text, value) or find(text)
    return string.sub(part_of(of, text), #argv[3] + 1)
  end

  local function increment(what, name, by)
    local of, part = find(name)
    local _, depth, hash = part_of(of, name)
    local is_new = not (of.count > 0 and is_in(of, part, name))
    if is_new and course == fills then of, part = remainder, remainder.name end
    local answer = redis.pcall(what, part, name, by)
    if type(answer) == 'table' and answer.err then return nil, answer end
    -- As a text: Lua hasn't all integers exactly. The part may be another one after it.
    answer = call('HGET', part, name)
    changed = true
    count(of, is_new and 1 or 0, part, depth, hash)
    return answer
  end

  -- All members, where there are not more: how many texts these are, and whether they may have been changed after their header was
  -- seen, come before. Else how many members there are.
  local function list(most, half)
    local answer = {stored, total()}
    if answer[2] > tonumber(most) then return answer end
    answer[2], answer[3] = 0, {ok = was_replaced and 'replaced' or 'whole'}
    local function append(texts)
      answer[#answer + 1], answer[2] = texts, answer[2] + #texts
    end
    for _, of in ipairs({integers, texts, outliers}) do
      local directory = of.count > 0 and call('GET', of.directory) or ''
      for index = 0, #directory - 1 do
        local depth = string.byte(directory, index + 1)
        if index < 2 ^ depth then
          local part = part_name(of, depth, index)
          append(half and call(half, part) or (is_hash and all_of or names_of)(of, part))
        end
      end
    end
    if remainder and remainder.count > 0 then
      append(call(half or is_hash and 'HGETALL' or 'SMEMBERS', remainder.name))
    end
    return answer
  end

  directories = {
    are_damaged = is_damaged(integers) or is_damaged(texts) or is_damaged(outliers),
    add = function(text, value)
      if value then return set_field(text, value) end
      return add_member(text)
    end,
    count = count, drain = drain, excerpt = excerpt, fill = fill, hint_of = hint_of, increment = increment, list = list, part_of = part_of, read = read,
    remove = function(text) return remove(find(text), text) end, set_field = set_field,
  }
  return directories
end

-- Once a script has written anything, a full server takes all that it writes: what makes more of it is told the server's error,
-- as if what makes less had not gone before.
local refusal
local function refuse(failed)
  if string.find(failed.err, 'OOM', 1, true) then refusal = failed end
  return failed
end

-- Whether so many members may be removed. What comes behind must learn beforehand whether the server is full.
local function may_remove(members, has_more)
  if refusal == nil and not changed and has_more then
    refusal = redis.pcall('HSETNX', bucket, field, '')
    refusal = type(refusal) == 'table' and refusal
  end
  return total() - members > fewest
end

-- What a member's or a field's part says of it, which is this one if there is such a part; nothing where that isn't known.
local function read_at(what, of, part, text)
  local found
  if what == 'GET' then
    found = call('HGET', part, text)
    if found then return found end
  elseif what == 'HAS' then
    found = call(of.is_set and 'SISMEMBER' or 'HEXISTS', part, text)
    if found == 1 then return 1 end
  else
    found = call('HSTRLEN', part, text)
    if found > 0 then return found end
  end
  if (not is_hash or outliers.count == 0) and size_of(of, part) > 0 then return found end
end

-- Counts so many more members of a part, which may be full or small by that.
local function recount(of, more, part, text)
  local all = by_directories()
  if all.are_damaged then
    of.count, changed = of.count + more, true
  else
    local _, depth, hash = all.part_of(of, text)
    all.count(of, more, part, depth, hash)
  end
end

-- The same of how many are new by adding it, or of a number that it counts up, and the server's error where it takes none.
local function add_at(what, of, part, text, value)
  if is_hash and (of ~= texts or outliers.count > 0) then return end
  local size = size_of(of, part)
  if size == 0 then return end
  local is_new, answer
  if what == 'ADD' and of.is_set then
    is_new = redis.pcall('SADD', part, text)
  elseif what == 'ADD' then
    is_new = redis.pcall('HSET', part, text, value or '')
  elseif what == 'NEW' then
    is_new = redis.pcall('HSETNX', part, text, value)
  else
    is_new = 1 - call('HEXISTS', part, text)
    answer = redis.pcall(what, part, text, value)
    if type(answer) == 'table' and answer.err then return 0, answer end
    -- As a text: Lua hasn't all integers exactly.
    answer = call('HGET', part, text)
  end
  if type(is_new) == 'table' then return 0, is_new end
  changed = changed or is_hash and what ~= 'NEW'
  if is_new == 1 then
    if size < of.most then of.count, changed = of.count + 1, true else recount(of, 1, part, text) end
  end
  return answer or is_new
end

-- The same of how many have gone by removing it.
local function remove_at(of, part, text)
  if call(of.is_set and 'SREM' or 'HDEL', part, text) == 0 then
    if (not is_hash or outliers.count == 0) and size_of(of, part) > 0 then return 0 end
    return
  end
  if of.count > 1 and size_of(of, part) * 6 >= of.most then
    of.count, changed = of.count - 1, true
  else
    recount(of, -1, part, text)
  end
  return 1
end

local makes_more = {ADD = true, NEW = true, HINCRBY = true, HINCRBYFLOAT = true}
-- What a hint begins with. Of what was replaced parts are left, and aren't right any more.
local hinted_class = {}
if argv[9] == nonce and not was_replaced and not remainder then
  hinted_class[105], hinted_class[116], hinted_class[111] = integers, texts, outliers
end

-- What a command does on one member or field: the answer, the server's error where it takes none, and a hint where there was none that
-- is right.
local function on_one(what, hint, text, value)
  local of = hinted_class[string.byte(hint)]
  local answer, failed
  if of then
    local part = base .. hint
    if what == 'REMOVE' then answer = remove_at(of, part, text)
    elseif makes_more[what] then answer, failed = add_at(what, of, part, text, value)
    else answer = read_at(what, of, part, text) end
    if answer ~= nil then return answer, failed end
  end
  local all = by_directories()
  if all.are_damaged then return damaged end
  if what == 'ADD' then answer, failed = all.add(text, value)
  elseif what == 'REMOVE' then answer = all.remove(text)
  elseif what == 'NEW' then answer, failed = all.set_field(text, value, true)
  elseif makes_more[what] then answer, failed = all.increment(what, text, value)
  else answer = all.read(what, text) end
  return answer, failed, all.hint_of(text, value)
end

-- Carries out a command that comes with hints.
local function by_hints(what, first, final)
  local reads, has_values = what ~= 'ADD' and what ~= 'REMOVE', what == 'ADD' and is_hash
  local step = has_values and 3 or 2
  local answer, better = 0, nil
  if reads then answer = {} end
  for index = first, final, step do
    local found, failed, hint = on_one(what, argv[index], argv[index + 1], has_values and argv[index + 2])
    if found == damaged then return damaged end
    if failed then return refuse(failed) end
    if reads then answer[#answer + 1] = found else answer = answer + found end
    if hint then
      better = better or {}
      better[index] = hint
    end
  end
  if better then
    answer = {{ok = '~'}, answer}
    for index = first, final, step do answer[#answer + 1] = better[index] or '' end
  end
  return answer
end

-- Carries out any other.
local function without_hints(what, first, final)
  local all = by_directories()
  if all.are_damaged then return damaged end
  local answer, failed = 0, nil
  if what == 'HAS' or what == 'GET' or what == 'LENGTH' then
    answer = {}
    for index = first, final do answer[#answer + 1] = all.read(what, argv[index]) end
  elseif what == 'ADD' or what == 'NEW' then
    for index = first, final, is_hash and 2 or 1 do
      local is_new
      if what == 'NEW' then
        is_new, failed = all.set_field(argv[index], argv[index + 1], true)
      else
        is_new, failed = all.add(argv[index], is_hash and argv[index + 1])
      end
      if failed then return refuse(failed) end
      answer = answer + is_new
    end
  elseif what == 'HINCRBY' or what == 'HINCRBYFLOAT' then
    answer, failed = all.increment(what, argv[first], argv[first + 1])
    if failed then return refuse(failed) end
  elseif what == 'REMOVE' then
    for index = first, final do answer = answer + all.remove(argv[index]) end
  elseif what == 'ALL' then
    return all.list(argv[first], final > first and argv[final])
  elseif what == 'DRAW' or what == 'TAKE' or what == 'WALK' then
    return all.excerpt(what, first)
  elseif what == 'COUNT' then
    return total()
  elseif what == 'DRAIN' then
    answer, failed = all.drain(argv[first])
    if failed then return failed end
  elseif what == 'FILL' then
    return all.fill(tonumber(argv[first]), tonumber(argv[first + 1]))
  else
    return unsure
  end
  return answer
end

local on_one_member = {
  h = 'HAS', g = 'GET', l = 'LENGTH', a = 'ADD', f = 'ADD', n = 'NEW', i = 'HINCRBY', d = 'HINCRBYFLOAT', r = 'REMOVE'
}
-- Those of them behind whose field stands what is to be written.
local has_value = {f = true, n = true, i = true, d = true}
local on_members = {has = 'HAS', get = 'GET', length = 'LENGTH', add = 'ADD', remove = 'REMOVE'}
-- What is published of the command that follows, if it has done anything: channels and messages, in these words.
local told_first, told_last
local function tell(what, answer)
  if type(answer) == 'table' and type(answer[1]) == 'table' and answer[1].ok == '~' then answer = answer[2] end
  if type(answer) == 'table' then answer = not answer.ok and not answer.err and #answer or false end
  if not answer or answer == 0 and not (is_hash and what == 'ADD') then return end
  -- That it may not be published changes nothing about what was written.
  for index = told_first, told_last, 2 do redis.pcall('PUBLISH', argv[index], argv[index + 1]) end
end

local answers, stopped, word = {}, false, 10
repeat
  local name, first = argv[word], word + 1
  local what, is_one, answer = on_one_member[name], true, unsure
  if what then
    word = word + (has_value[name] and 4 or 3)
  else
    what, is_one, first = on_members[name] or name, false, word + 2
    word = first + argv[word + 1]
  end
  if what == 'TELL' then
    told_first, told_last = first, word - 1
  elseif stopped then
    -- What follows isn't done either.
  elseif refusal and makes_more[what] then
    answer = refusal
  elseif what == 'REMOVE' and not may_remove(is_one and 1 or (word - first) / (what == name and 1 or 2), word <= last) then
    -- So few members are packed again.
  elseif is_one then
    local failed, hint
    answer, failed, hint = on_one(what, argv[first], argv[first + 1], has_value[name] and argv[first + 2])
    if failed then answer = refuse(failed) elseif hint then answer = {{ok = '~'}, answer, hint} end
  else
    answer = (what == name and without_hints or by_hints)(what, first, word - 1)
  end
  if what ~= 'TELL' then
    stopped = stopped or answer == unsure
    answers[#answers + 1] = answer
    if told_first then tell(what, answer) end
  end
until word > last
if changed then
  call('HSET', bucket, field, string.sub(stored, 1, at + 7) .. struct.pack('>I6c1BI5BI5BI5BI4I4', (version + 1) % 2 ^ 48, form,
    integers.depth, integers.count, texts.depth, texts.count, outliers.depth, outliers.count, course + 4 * turns, seed_high, seed_low))
end
return answers[2] ~= nil and answers or answers[1]
