-- GETRANGE.
local function part_of(value, start, stop)
  if start < 0 and stop < 0 and start > stop then return '' end
  if start < 0 then start = math.max(#value + start, 0) end
  if stop < 0 then stop = math.max(#value + stop, 0) end
  return string.sub(value, start + 1, stop + 1)
end
-- An argument as text: numbers as the server writes them, where it writes all their digits, else false.
local function text(arg)
  if type(arg) ~= 'number' then return arg end
  return arg == math.floor(arg) and arg < 1e15 and arg > -1e15 and (arg ~= 0 or 1 / arg > 0) and string.format('%.0f', arg)
end
-- A command on one folded key, where all is as it mostly is; else `{ok = '?'}`, as scripts on fields answer, with nothing done.
local function ordinary(name, place, count, x, y, ...)
  local field, longest = place[2], place[3]
  if count == 2 then
    if name == 'INCR' then return on_field(place, {field, longest, 1}, 1) end
    if name == 'DECR' then return on_field(place, {field, longest, -1}, 1) end
    if name == 'GETDEL' then return on_field(place, {field, longest, 'DEL'}, 4) or none end
    if name == 'PERSIST' then return on_field(place, {field, longest, '', ''}, 3) end
    local value, expiry = on_field(place, {field})
    if type(value) == 'table' then return value end
    if name == 'GET' or name == 'GETEX' then return value or none end
    if name == 'DEL' or name == 'UNLINK' then
      if not value then return 0 end
      field_call('HDEL', place[1], field)
      return 1
    end
    if name == 'EXISTS' or name == 'TOUCH' then return value and 1 or 0 end
    if name == 'STRLEN' then return value and #value or 0 end
    if name == 'TYPE' then return {ok = value and 'string' or 'none'} end
    local is_left, in_seconds = name == 'TTL' or name == 'PTTL', name == 'TTL' or name == 'EXPIRETIME'
    if not is_left and not in_seconds and name ~= 'PEXPIRETIME' then return {ok = '?'} end
    if not value then return -2 end
    if not expiry then return -1 end
    local at = struct.unpack('>I5', expiry) + 1577836800000
    if is_left then at = at - time[1] * 1000 - math.floor(time[2] / 1000) end
    return in_seconds and math.floor((at + 500) / 1000) or at
  end
  x, y = text(x), text(y)
  if type(x) ~= 'string' or count > 3 and type(y) ~= 'string' then return {ok = '?'} end
  -- An integer that Lua has exactly; nothing for another.
  local function integer(text)
    return #text < 16 and (text == '0' or string.find(text, '^%-?[1-9]%d*$')) and tonumber(text)
  end
  -- An expiry in the five bytes of a frame, by how SET says it; nothing where it is over or too far.
  local function since(unit, text)
    local at = integer(text)
    if not at then return nil end
    if unit == 'EX' or unit == 'EXAT' then at = at * 1000 end
    local now = field_call('TIME')
    now = now[1] * 1000 + math.floor(now[2] / 1000)
    if unit == 'EX' or unit == 'PX' then at = at + now end
    if at > now and at < 2677348427776 then return struct.pack('>I5', at - 1577836800000) end
  end
  local reply
  if name == 'SET' then
    local condition, old, at = '', '', ''
    if count > 3 then
      local words, next = {y, ...}, 1
      while next <= count - 3 do
        local word = type(words[next]) == 'string' and string.upper(words[next])
        if (word == 'NX' or word == 'XX') and (condition == '' or condition == word) then
          condition = word
        elseif word == 'GET' then
          old = word
        elseif word == 'KEEPTTL' and at == '' then
          at = 'KEEP'
        elseif (word == 'EX' or word == 'PX' or word == 'EXAT' or word == 'PXAT') and at == '' then
          next = next + 1
          local arg = text(words[next])
          at = type(arg) == 'string' and since(word, arg)
        else
          at = nil
        end
        if not at then return {ok = '?'} end
        next = next + 1
      end
    end
    reply = on_field(place, {field, longest, condition, old, at, x}, 2)
    if type(reply) == 'table' then return reply end
    if old == 'GET' then return reply or none end
    return reply and {ok = 'OK'} or none
  end
  if name == 'EXPIRE' or name == 'PEXPIRE' or name == 'EXPIREAT' or name == 'PEXPIREAT' then
    local at = since(name == 'EXPIRE' and 'EX' or name == 'PEXPIRE' and 'PX' or name == 'EXPIREAT' and 'EXAT' or 'PXAT', x)
    local condition = count > 3 and string.upper(y) or ''
    local is_known = condition == '' or condition == 'NX' or condition == 'XX' or condition == 'GT' or condition == 'LT'
    if not at or count > 4 or count == 4 and condition == '' or not is_known then return {ok = '?'} end
    return on_field(place, {field, longest, at, condition}, 3)
  end
  if count == 3 then
    if name == 'INCRBY' or name == 'DECRBY' then
      local by = integer(x)
      return by and on_field(place, {field, longest, name == 'INCRBY' and by or -by}, 1) or {ok = '?'}
    end
    if name == 'APPEND' then return on_field(place, {field, longest, x, ''}, 5) end
    if name == 'GETSET' then return on_field(place, {field, longest, '', 'GET', '', x}, 2) or none end
    if name == 'SETNX' then
      reply = on_field(place, {field, longest, 'NX', '', '', x}, 2)
      return type(reply) == 'table' and reply or reply and 1 or 0
    end
    if name == 'GETEX' and string.upper(x) == 'PERSIST' then return on_field(place, {field, longest, ''}, 4) or none end
  elseif count == 4 then
    if name == 'SETEX' or name == 'PSETEX' then
      local at = since(name == 'SETEX' and 'EX' or 'PX', x)
      if not at then return {ok = '?'} end
      reply = on_field(place, {field, longest, '', '', at, y}, 2)
      return type(reply) == 'table' and reply or {ok = 'OK'}
    end
    if name == 'GETEX' then
      local unit = string.upper(x)
      local is_known = unit == 'EX' or unit == 'PX' or unit == 'EXAT' or unit == 'PXAT'
      local at = is_known and since(unit, y)
      return at and on_field(place, {field, longest, at}, 4) or at and none or {ok = '?'}
    end
    if name == 'GETRANGE' or name == 'SUBSTR' then
      local start, stop = integer(x), integer(y)
      local value = start and stop and on_field(place, {field})
      if not start or not stop or type(value) == 'table' then return {ok = '?'} end
      return part_of(value or '', start, stop)
    end
    if name == 'SETRANGE' then
      local offset = integer(x)
      return offset and offset >= 0 and on_field(place, {field, longest, y, offset}, 5) or {ok = '?'}
    end
  end
  return {ok = '?'}
end
