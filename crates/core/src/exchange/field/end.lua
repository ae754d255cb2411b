    end
    -- What comes next makes another key.
    if not value then expiry = nil end
    count, at = count + 1, at + 3 + argv[at + 2]
    if unsure then answer = {ok = '?'} elseif changed and not since then since = count end
    answers[count] = answer
  until at > last or argv[at + 1] ~= field
  local stops = unsure
  if since then
    if count > 1 or at <= last then
      -- An error is for who is alone here. Others are told that nothing was done of what it is about.
      call = redis.pcall
      -- Once a script has removed anything, a full server takes whatever it writes: so it is asked before whether it is full.
      if not value and not has_written and is_full == nil then is_full = type(call('HSETNX', bucket, field, '')) == 'table' end
    end
    if is_full and (value or count > first) then
      unsure = true
    else
