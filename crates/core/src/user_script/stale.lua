-- Whether the server's functions have changed since keyfold asked for them. Among the script's own arguments the last says in
-- which states they are what keyfold takes them for; nothing says that it has been looked.
local expected = ARGV[tonumber(ARGV[#ARGV - 1])]
if expected ~= '' then
  --@state
  return not string.find(expected, state, 1, true)
end
