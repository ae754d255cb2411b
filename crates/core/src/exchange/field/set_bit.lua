-- ARGV 3: the bit's offset. 4: 0 or 1. Answers what it was.
if number then value = string.format('%.0f', number) end
local old, offset = value or '', tonumber(ARGV[3])
local index, weight = math.floor(offset / 8), 2 ^ (7 - offset % 8)
local byte = string.byte(old, index + 1) or 0
local was = math.floor(byte / weight) % 2
local padding = string.rep('\0', index - #old)
local new = string.sub(old, 1, index) .. padding .. string.char(byte + (ARGV[4] - was) * weight) .. string.sub(old, index + 2)
if not write(new, expiry) then return {ok = '?'} end
return was
