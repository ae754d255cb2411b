-- What a script's commands do to folded keys, published as the server would publish it; put there only where it publishes
-- anything. In place of 'notices' stand the beginnings of the channels of keys and of events, each or false, and the classes of
-- events that are asked for.
do
  local of_key, of_event, classes = unpack 'notices'
  local silent = carry_out
  -- What a server tells of a key that is given a time in the past.
  local is_valkey = real.SERVER_NAME == 'valkey'
  local past, of_past_field = {'g', 'del'}, 'hdel'
  if is_valkey then
    of_past_field = 'hexpired'
    if real.VALKEY_VERSION_NUM >= 0x00080100 then past = {'x', 'expired'} end
  end
  local function publish(class, event, place)
    if not string.find(classes, class, 1, true) then return end
    if of_key then real.pcall('PUBLISH', of_key .. place[5], event) end
    if of_event then real.pcall('PUBLISH', of_event .. event, place[5]) end
  end
  --@numerals
  -- What is stored for a key, nothing where that has expired; when it expires; and what is stored though it has. With the long
  -- value that it points to, where it matters that this is another, which may have the same name.
  local function state(place, is_whole)
    if place[3] == '' then
      local stored = real.pcall('GET', place[1])
      if type(stored) ~= 'string' then return {} end
      local left = real.pcall('PTTL', place[1])
      return {stored, left >= 0 and left}
    end
    -- What was written last may be remembered in another form than it is read in.
    if is_whole then bucket_known = nil end
    local stored = field_call('HGET', place[1], place[2])
    if failed or type(stored) ~= 'string' then
      failed = nil
      return {}
    end
    local tag, expiry, at = string.byte(stored), nil, nil
    if tag and tag < 32 and tag % 4 == 1 then
      expiry = string.sub(stored, 2, 6)
      at = struct.unpack('>I5', expiry) + 1577836800000
    elseif tag and tag < 32 and tag % 4 == 2 then
      expiry = string.sub(stored, 2, 9)
      at = struct.unpack('>i8', expiry)
    end
    local now = at and field_call('TIME')
    if at and at < now[1] * 1000 + math.floor(now[2] / 1000) then return {nil, nil, stored} end
    if is_whole and tag and tag > 7 and tag < 11 then
      local from = 2 + #(expiry or '')
      local value = real.pcall('GET', spill_name(string.sub(place[4], 9), place[5], string.sub(stored, from, from + 7)))
      if type(value) == 'string' then stored = stored .. value end
    end
    return {stored, expiry}
  end
  local function text(arg) return string.upper(tostring(arg)) end
  local always = {
    APPEND = 'append', SETRANGE = 'setrange', INCR = 'incrby', DECR = 'incrby', INCRBY = 'incrby', DECRBY = 'incrby',
    INCRBYFLOAT = 'incrbyfloat'
  }
  local of_members = {
    SADD = {'s', 'sadd'}, SREM = {'s', 'srem'}, SPOP = {'s', 'spop'}, HSET = {'h', 'hset'}, HMSET = {'h', 'hset'}, HSETNX = {'h', 'hset'},
    HDEL = {'h', 'hdel'}, HGETDEL = {'h', 'hdel'}, HINCRBY = {'h', 'hincrby'}, HINCRBYFLOAT = {'h', 'hincrbyfloat'}
  }
  local stored = ' SINTERSTORE SUNIONSTORE SDIFFSTORE '
  local written = ' SET SETEX PSETEX SETNX GETSET MSET MSETNX '
  local expires = ' EXPIRE PEXPIRE EXPIREAT PEXPIREAT '
  local copied = ' RENAME RENAMENX COPY RESTORE '
  local expires_fields = ' HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HPERSIST '
  carry_out = function(...)
    local count, args, order, before = select('#', ...), {...}, {}, {}
    local name = count > 0 and text(args[1]) or ''
    if reads_only then return silent(...) end
    local is_of_bits = name == 'SETBIT' or name == 'BITFIELD'
    for at = 2, count do
      local place = places[args[at]]
      if place and not before[place] then
        order[#order + 1], before[place] = place, state(place, is_of_bits)
      end
    end
    local reply = silent(...)
    local is_error = type(reply) == 'table' and reply.err
    if #order == 0 or is_error then return reply end
    local function is_in(list) return string.find(list, ' ' .. name .. ' ', 1, true) end
    local after = {}
    for _, place in ipairs(order) do after[place] = state(place, is_of_bits) end
    -- What comes before all else of a key: that it had expired, and that it is a new one.
    local function begin(place, is_new)
      local b, a = before[place], after[place]
      if b[3] and a[3] ~= b[3] then
        -- A hash without an expiry of its own has gone with the last of its fields.
        local is_passing = place[7] == 'hash' and string.byte(b[3], string.byte(b[3]) % 4 == 1 and 7 or 10) == 68
        if is_passing then publish('h', 'hexpired', place) end
        publish(is_passing and 'g' or 'x', is_passing and 'del' or 'expired', place)
      elseif place[9] and a[1] ~= b[1] then
        publish('h', 'hexpired', place)
      end
      place[9] = nil
      if is_new or a[1] and not b[1] then publish('n', 'new', place) end
      b[3], b[1] = nil, b[1] or a[1]
    end
    local function tell(class, event, place)
      if place then
        begin(place)
        publish(class, event, place)
      end
    end
    local place = places[args[2]]
    local b, a = place and before[place], place and after[place]
    local was_there = b and b[1]
    local options = {}
    -- Servers read an option up to its first NUL.
    for at = 3, count do options[string.match(text(args[at]), '^%Z*')] = at > 3 or name == 'GETEX' end
    local sets_expiry = options.EX or options.PX or options.EXAT or options.PXAT
    if is_in(written) then
      local is_done = true
      if name == 'SET' then
        local has_condition = options.IFEQ or options.IFNE or options.IFDEQ or options.IFDNE
        if not options.GET then
          is_done = type(reply) == 'table' and reply.ok == 'OK'
        elseif has_condition then
          is_done = a[1] ~= was_there
        elseif options.NX or options.XX then
          is_done = options.NX and not was_there or options.XX and was_there
        end
      elseif name == 'SETNX' or name == 'MSETNX' then
        is_done = reply == 1
      end
      if is_done then
        local step = (name == 'MSET' or name == 'MSETNX') and 2 or count
        for at = 2, count, step do
          local place = places[args[at]]
          local is_gone = place and not after[place][1]
          if is_gone and is_valkey then
            -- It was given a time in the past.
            if before[place][1] then tell(past[1], past[2], place) end
          elseif place then
            begin(place, not before[place][1])
            before[place][1] = true
            publish('$', 'set', place)
            if name == 'SET' and sets_expiry or name == 'SETEX' or name == 'PSETEX' then publish('g', 'expire', place) end
            if is_gone then publish('x', 'expired', place) end
          end
        end
      end
    elseif name == 'DEL' or name == 'UNLINK' then
      for _, place in ipairs(order) do
        if before[place][1] and not after[place][1] then tell('g', 'del', place) end
      end
    elseif of_members[name] and place then
      -- HSET and its like are told though they change nothing.
      local sets = name == 'HSET' or name == 'HMSET' or name == 'HINCRBY' or name == 'HINCRBYFLOAT'
      if sets or a[1] ~= was_there then tell(of_members[name][1], of_members[name][2], place) end
      if was_there and not a[1] then publish('g', 'del', place) end
    elseif place and is_in(expires_fields) then
      local found = {}
      for _, number in ipairs(reply) do found[number] = true end
      if found[1] then tell('h', name == 'HPERSIST' and 'hpersist' or 'hexpire', place) end
      if found[2] then tell('h', of_past_field, place) end
      if was_there and not a[1] then publish('g', 'del', place) end
    elseif place and (name == 'HSETEX' and reply == 1 or name == 'HGETEX') then
      local sets, at, left, persists = name == 'HSETEX', 3, nil, false
      while at <= count do
        local word = text(args[at])
        if word == 'FIELDS' then
          at = at + 1 + tonumber(args[at + 1]) * (sets and 2 or 1)
        elseif word == 'PERSIST' then
          persists = true
        elseif word == 'EX' or word == 'PX' or word == 'EXAT' or word == 'PXAT' then
          left = tonumber(args[at + 1]) * (string.sub(word, 1, 1) == 'E' and 1000 or 1)
          local now = field_call('TIME')
          if #word == 4 then left = left - now[1] * 1000 - math.floor(now[2] / 1000) end
          at = at + 1
        end
        at = at + 1
      end
      local is_any = sets
      for nth = 1, not sets and count or 0 do is_any = is_any or reply[nth] end
      if sets then
        begin(place, not was_there)
        publish('h', 'hset', place)
      end
      if is_any and left then
        if left > 0 or sets and is_valkey then tell('h', 'hexpire', place) end
        if left <= 0 then tell('h', of_past_field, place) end
      elseif persists and a[1] ~= was_there then
        tell('h', 'hpersist', place)
      end
      if not a[1] and (was_there or sets) then publish('g', 'del', place) end
    elseif name == 'SMOVE' and reply == 1 then
      local to = places[args[3]]
      if args[2] ~= args[3] then
        tell('s', 'srem', place)
        if place and not a[1] then publish('g', 'del', place) end
        if to and after[to][1] ~= before[to][1] then tell('s', 'sadd', to) end
      end
    elseif is_in(stored) and place then
      if a[1] then tell('s', string.lower(name), place) elseif was_there then tell('g', 'del', place) end
    elseif always[name] and place then
      if name ~= 'SETRANGE' or args[4] ~= '' then tell('$', always[name], place) end
    elseif is_of_bits and place then
      if a[1] ~= was_there then tell('$', 'setbit', place) end
    elseif is_in(expires) and reply == 1 and place then
      if a[1] then tell('g', 'expire', place) else tell(past[1], past[2], place) end
    elseif name == 'PERSIST' and reply == 1 then
      tell('g', 'persist', place)
    elseif name == 'BITOP' then
      local place = places[args[3]]
      if place and after[place][1] then
        tell('$', 'set', place)
      elseif place and before[place][1] then
        tell('g', 'del', place)
      end
    elseif is_in(copied) then
      local to = places[args[3]]
      if name == 'RESTORE' and a[1] then
        begin(place, true)
        tell('g', 'restore', place)
      elseif name ~= 'RESTORE' and reply ~= 0 and args[2] ~= args[3] then
        if to then begin(to, true) end
        if name == 'COPY' then
          tell('g', 'copy_to', to)
        else
          tell('g', 'rename_from', place)
          tell('g', 'rename_to', to)
        end
      elseif name == 'RESTORE' and was_there then
        tell('g', 'del', place)
      end
    elseif place and was_there and not a[1] then
      if name == 'GETEX' then tell(past[1], past[2], place) else tell('g', 'del', place) end
    elseif name == 'GETEX' and place and was_there then
      if options.PERSIST and b[2] and not a[2] then
        tell('g', 'persist', place)
      elseif sets_expiry then
        tell('g', 'expire', place)
      end
    end
    return reply
  end
end
