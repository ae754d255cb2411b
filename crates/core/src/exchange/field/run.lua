repeat
  local field, first, since = argv[at + 1], count + 1, nil
