-- KEYS 2: a key where nothing is. ARGV 3: a command on one key, which the server carries out there on the value; its
-- arguments behind the key follow. Answers what it does.
if number then value = string.format('%.0f', number) end
local scratch, command = KEYS[2], {ARGV[3], KEYS[2]}
for index = 4, #ARGV do command[index - 1] = ARGV[index] end
if value then redis.call('SET', scratch, value) end
local answer = redis.pcall(unpack(command))
local new = redis.call('GET', scratch)
redis.call('DEL', scratch)
if type(answer) == 'table' and answer.err then return {ok = '?'} end
if new and new ~= value and not write(new, expiry) then return {ok = '?'} end
return answer
