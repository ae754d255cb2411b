-- What tells one state of a server's functions from every other: which process it is and whose data it has, and the calls that
-- change functions, counted and timed. CONFIG RESETSTAT has it count anew.
local info, state = redis.call('INFO', 'server', 'replication', 'commandstats'), ''
for _, name in ipairs({'run_id:', 'master_replid:', 'function|load:', 'function|delete:', 'function|flush:', 'function|restore:'}) do
  local at = string.find(info, name, 1, true)
  state = state .. (at and string.match(info, '[^,\r]*,?[^,\r]*', at) or name) .. ';'
end
state = string.sub(redis.sha1hex(state), 1, 20)
