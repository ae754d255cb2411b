-- Packed sets and hashes (crates/core/src/collection/packed.rs, vocabulary.rs). Members, fields and values come packed as well, each in the one
-- form that it has, so that they are compared byte by byte.

-- Where a member or field stands: its first byte, its last, and the last of what belongs to it. Nothing where it isn't there;
-- false where the bytes can't be read, or it is there twice.
local function find(packed, text, is_hash)
  local at, size, first, last, to = 2, #packed, nil, nil, nil
  while at <= size do
    local ends = text_end(packed, at)
    local goes_to = ends and is_hash and text_end(packed, ends + 1) or not is_hash and ends
    if not goes_to then return false end
    if ends - at + 1 == #text and string.sub(packed, at, ends) == text then
      if first then return false end
      first, last, to = at, ends, goes_to
    end
    at = goes_to + 1
  end
  return first, last, to
end

-- The integer that a packed text is; nil where it is none, or Lua might not have it exactly.
local function integer_of(text)
  local head = string.byte(text)
  if head >= 208 then return head - 208 end
  if head >= 192 and head < 198 then return (struct.unpack('>i' .. head - 191, text, 2)) end
end

-- The packed text of an integer.
local function integer_text(integer)
  if integer >= 0 and integer < 48 then return string.char(208 + integer) end
  local size, half = 1, 128
  while integer < -half or integer >= half do size, half = size + 1, half * 256 end
  return string.char(191 + size) .. struct.pack('>i' .. size, integer)
end

-- A number of seven bits a byte: how much one member of a set of integers is more than the one before, or when a field expires.
local function number_text(more)
  local bytes = ''
  while more >= 128 do
    bytes = bytes .. string.char(more % 128 + 128)
    more = math.floor(more / 128)
  end
  return bytes .. string.char(more)
end

-- The first integer of a set of such, and where its bytes end; false where it can't be read exactly.
local function first_integer(packed)
  local to = text_end(packed, 2)
  return to and integer_of(string.sub(packed, 2, to)) or false, to
end

-- The integer behind `now`, whose bytes end at `to`, likewise.
local function next_integer(packed, now, to)
  local more, last = number_behind(packed, to)
  local next = more and now + more
  return next and more > 0 and next < 2 ^ 53 and next, last
end

-- Goes over a set of integers up to one that is at least `integer`, false where it can't be read exactly, nothing behind the last:
-- that one, where its bytes begin and where they end, and the one before it.
local function seek(packed, integer)
  local now, to = first_integer(packed)
  local from, before = 2, nil
  while now and now < integer do
    before, from = now, to + 1
    if to == #packed then return nil, from, to, before end
    now, to = next_integer(packed, now, to)
  end
  return now, from, to, before
end

-- The set of integers with this one; false where it can't be read exactly. The second is whether it is new.
local function with_integer(packed, integer)
  local now, from, to, before = seek(packed, integer)
  if now == false then return false end
  if now == integer then return packed, false end
  local new = before and number_text(integer - before) or integer_text(integer)
  local rest = now and number_text(now - integer) .. string.sub(packed, to + 1) or ''
  return string.sub(packed, 1, from - 1) .. new .. rest, true
end

-- The set of integers without this one, likewise; the second is whether it was there.
local function without_integer(packed, integer)
  local now, from, to, before = seek(packed, integer)
  if now == false then return false end
  if now ~= integer then return packed, false end
  if to == #packed then return string.sub(packed, 1, from - 1), true end
  local after, last = next_integer(packed, now, to)
  if not after then return false end
  local new = before and number_text(after - before) or integer_text(after)
  return string.sub(packed, 1, from - 1) .. new .. string.sub(packed, last + 1), true
end

-- A set of integers as one of any members; false where it can't be read exactly.
local function as_any_set(packed)
  local all = {'@'}
  local now, to = first_integer(packed)
  while now do
    all[#all + 1] = integer_text(now)
    if to == #packed then return table.concat(all) end
    now, to = next_integer(packed, now, to)
  end
  return false
end
