  if stopped and stopped[field] then unsure = true end
  repeat
    local name, answer, changed = argv[at], nil, nil
    unsure = unsure or kept and name ~= 'EXPIRE'
    if unsure then
      -- It may depend on what isn't done.
