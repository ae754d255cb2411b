  if stopped and stopped[field] then unsure = true end
  repeat
    local name, answer, changed = argv[at], nil, nil
    if unsure then
      -- It may depend on what isn't done.
