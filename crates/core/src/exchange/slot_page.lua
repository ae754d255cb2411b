-- keyfold: names from a slot of a cluster on, with what the node says of itself at that moment. KEYS: a name in the slot
-- that is never there, so that only who has the slot answers, or who gets it; without one the node answers in any case.
-- ARGV: the slot; then 'scan', the cursor, COUNT, and one or more types; or 'slots', of how many slots, how many names of
-- each at most, and after how many names it is enough.
local slot, form = ARGV[1], ARGV[2]
local nodes = '\n' .. redis.call('CLUSTER', 'NODES')
local myself = string.match(nodes, '\n([^\n]* myself[, ][^\n]*)')
local other = string.match(myself, '%[' .. slot .. '%-[<>]%-(%x+)%]')
local info = redis.call('INFO', 'server')
local page = {
  myself,
  other and string.match(nodes, '\n(' .. other .. ' [^\n]*)') or '',
  string.match(info, 'run_id:(%x+)') or '',
  string.match(info, 'redis_version:([%d.]+)') or '',
  string.match(info, 'valkey_version:([%d.]+)') or '',
}
if form == 'scan' then
  local scan = {'SCAN', ARGV[3], 'COUNT', ARGV[4]}
  for at = 5, math.max(5, #ARGV) do
    if ARGV[at] then
      scan[5], scan[6] = 'TYPE', ARGV[at]
    end
    page[#page + 1] = redis.pcall(unpack(scan))
  end
else
  local left = tonumber(ARGV[5])
  for at = slot, math.min(16383, slot + ARGV[3] - 1) do
    local names = {}
    for _, name in ipairs(redis.call('CLUSTER', 'GETKEYSINSLOT', at, ARGV[4])) do
      names[#names + 1] = name
      names[#names + 1] = redis.pcall('TYPE', name).ok or ''
    end
    page[#page + 1] = names
    left = left - #names / 2
    if left <= 0 then
      break
    end
  end
end
return page
