-- The same on a hash of which fields expire: all of it is read, but for what has expired, and written anew.
local is_passing, entries, by_name = head == 68 or lead == 207, {}, {}
local key_expiry = not is_passing and expiry or nil
time = time or call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local from, size = lead and 3 or 2, #value
while from <= size and not unsure do
  local name_to = text_end(value, from)
  local value_to = name_to and text_end(value, name_to + 1)
  local number, to
  if value_to then number, to = number_behind(value, value_to) end
  local name = number and string.sub(value, from, name_to)
  -- Not readable exactly, or there twice.
  unsure = not number or by_name[name] ~= nil
  if not unsure then
    local entry = {name = name, value = string.sub(value, name_to + 1, value_to), expires_at = number > 0 and number - 1}
    by_name[name] = false
    if not entry.expires_at or entry.expires_at >= now then entries[#entries + 1], by_name[name] = entry, entry end
    from = to + 1
  end
end
-- With the last of its fields the key has gone.
if not entries[1] then key_expiry = nil end
for word = at + 5, unsure and 0 or words, (what == 'REMOVE' or what == 'COUNT') and 1 or 2 do
  local name = argv[word]
  local entry = by_name[name]
  if what == 'REMOVE' then
    if entry then
      entry.value, by_name[name], done, changed = nil, nil, done + 1, true
    end
  elseif what == 'COUNT' then
    local old = entry and integer_of(entry.value) or not entry and 0
    local sum = old and old + integer_of(argv[word + 1])
    unsure = not sum or sum >= 2 ^ 47 or sum < -2 ^ 47
    if unsure then break end
    if not entry then
      entry = {name = name}
      entries[#entries + 1], by_name[name] = entry, entry
    end
    entry.value, done, changed = integer_text(sum), sum, true
    break
  elseif not entry then
    entry = {name = name, value = argv[word + 1]}
    entries[#entries + 1], by_name[name] = entry, entry
    done, changed = done + 1, true
  elseif what == 'ADD' then
    entry.value, entry.expires_at, changed = argv[word + 1], nil, true
  end
end
if changed and not unsure then
  local any, all, last, out = false, true, 0, {''}
  for _, entry in ipairs(entries) do
    if entry.value then
      any, all, last = any or entry.expires_at, all and entry.expires_at, math.max(last, entry.expires_at or 0)
    end
  end
  for _, entry in ipairs(entries) do
    if entry.value then out[#out + 1] = entry.name .. entry.value .. (any and number_text((entry.expires_at or -1) + 1) or '') end
  end
  local passes = any and all and not key_expiry
  local since = last - 1577836800000
  if passes and (since < 0 or since >= 1099511627776) then
    unsure = true
  else
    if names then
      out[1] = 'E' .. (passes and '\207' or any and '\206' or '')
    else
      out[1] = passes and 'D' or any and 'C' or 'B'
    end
    -- A list of nothing is no hash.
    value, expiry = out[2] ~= nil and table.concat(out), passes and struct.pack('>I5', since) or key_expiry
  end
end
