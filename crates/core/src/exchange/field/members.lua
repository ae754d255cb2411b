-- The words (`words.lua`) on a packed set, or on a hash of which no field expires.
local are_integers = head == 65
local head_of_hash, new_hash = names and 69 or 66, names and 'E' or 'B'
if number or head and (head ~= (is_hash and head_of_hash or 64) and not (are_integers and not is_hash) or coded ~= names) then
  -- What another codec wrote or none, or what is none such.
  unsure = true
elseif what == 'ADD' and not is_hash then
  local packed = value
  if not packed then
    are_integers = true
    for word = at + 5, words do are_integers = are_integers and integer_of(argv[word]) end
    packed = are_integers and 'A' .. argv[at + 5] or '@' .. argv[at + 5]
    done = 1
  end
  for word = at + 5 + done, words do
    local integer, is_new = integer_of(argv[word]), nil
    if are_integers and not integer then
      packed, are_integers = as_any_set(packed), false
      if not packed then break end
    end
    if are_integers then
      packed, is_new = with_integer(packed, integer)
      if not packed then break end
    else
      local from = find(packed, argv[word], false)
      if from == false then packed = false break end
      is_new = not from
      if is_new then packed = packed .. argv[word] end
    end
    if is_new then done = done + 1 end
  end
  unsure = not packed
  if packed and done > 0 then value, changed = packed, true end
elseif what == 'REMOVE' then
  local packed = value
  for word = at + 5, packed and words or 0 do
    if are_integers then
      local integer, was_there = integer_of(argv[word]), nil
      if integer then
        packed, was_there = without_integer(packed, integer)
        if was_there then done = done + 1 end
      else
        -- It is none of them, or one that Lua might not have.
        packed = false
      end
    else
      local from, _, to = find(packed, argv[word], is_hash)
      if from == false then packed = false end
      if from then
        packed, done = string.sub(packed, 1, from - 1) .. string.sub(packed, to + 1), done + 1
      end
    end
    if not packed then break end
    -- The key goes with its last member.
    if #packed == 1 then break end
  end
  unsure = value and not packed
  if packed and done > 0 then value, changed = #packed > 1 and packed, true end
elseif what == 'COUNT' then
  local packed = value or new_hash
  local from, last, to = find(packed, argv[at + 5], true)
  local old = from and integer_of(string.sub(packed, last + 1, to)) or not from and from ~= false and 0
  local sum = old and old + integer_of(argv[at + 6])
  if not sum or sum >= 2 ^ 47 or sum < -2 ^ 47 then
    unsure = true
  else
    local name = argv[at + 5]
    value = from and string.sub(packed, 1, last) .. integer_text(sum) .. string.sub(packed, to + 1)
      or packed .. name .. integer_text(sum)
    done, changed, coded = sum, true, names
  end
else
  local packed = value or new_hash
  for word = at + 5, words, 2 do
    local from, last, to = find(packed, argv[word], true)
    if from == false then packed = false break end
    if not from then
      packed, done, changed = packed .. argv[word] .. argv[word + 1], done + 1, true
    elseif what == 'ADD' then
      packed, changed = string.sub(packed, 1, last) .. argv[word + 1] .. string.sub(packed, to + 1), true
    end
  end
  unsure = not packed
  if changed and packed then value, coded = packed, names end
end
