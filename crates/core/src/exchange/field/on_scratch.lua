-- A command on one key without the key, which the server carries out on the value at `scratch`, where nothing is. Answers what
-- it does.
if number then value, number = string.format('%.0f', number), nil end
local command = {argv[at + 3], scratch}
for index = 2, tonumber(argv[at + 2]) do command[index + 1] = argv[at + 2 + index] end
if value then call('SET', scratch, value) end
answer = redis.pcall(unpack(command))
local new = redis.call('GET', scratch)
redis.call('DEL', scratch)
if type(answer) == 'table' and answer.err then
  unsure = true
elseif new and new ~= value then
  value, changed = new, true
end
