-- Whether all fields of the hash have expired: then the key has gone, whatever its own expiry. `unsure` where it can't be read exactly.
  time = time or call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local from, size = coded and 3 or 2, #value
  has_gone = true
  while from <= size and has_gone and not unsure do
    local name_to = text_end(value, from)
    local value_to = name_to and text_end(value, name_to + 1)
    local number, to
    if value_to then number, to = number_behind(value, value_to) end
    if number then
      has_gone, from = number > 0 and number - 1 < now, to + 1
    else
      unsure = true
    end
  end
