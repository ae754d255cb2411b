      has_written = has_written or value and not unsure
    end
    if unsure then
      for index = since, count do answers[index] = {ok = '?'} end
    end
  end
  if stops or unsure then
    stopped = stopped or {}
    stopped[field] = true
  end
until at > last
if count == 1 then return answers[1] end
return answers
