-- ARGV 3: DEL; else when it is to expire from now on in five bytes, nothing for never. Answers the value.
if number then value = string.format('%.0f', number) end
if not value then return false end
if ARGV[3] == 'DEL' then
  redis.call('HDEL', KEYS[1], ARGV[1])
elseif ARGV[3] ~= '' or expiry then
  if not write(value, ARGV[3] ~= '' and ARGV[3] or nil) then return {ok = '?'} end
end
return value
