-- keyfold: several commands at one moment, for a server that is out of memory and refuses a MULTI for it, or for keys of
-- several slots of one node. ARGV: the commands, each as its number of arguments, then those.
local replies, at = {}, 1
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, last))
  at = last + 1
end
return replies
