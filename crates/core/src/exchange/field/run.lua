repeat
  local field, since = argv[at + 1], nil
