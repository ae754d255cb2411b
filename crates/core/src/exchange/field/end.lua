    end
    count, at = count + 1, at + 3 + argv[at + 2]
    if unsure then answer = {ok = '?'} elseif changed and not since then since = count end
    answers[count] = answer
  until at > last or argv[at + 1] ~= field
  local stops = unsure
  if since then
    -- An error is for who is alone here. Others are told that nothing was done of what it is about.
    if count > 1 or at <= last then call = redis.pcall end
