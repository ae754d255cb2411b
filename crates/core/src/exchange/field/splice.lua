-- ARGV 3: bytes. 4: where they go, nothing for behind the value. Answers the length that came of it.
if number then value = string.format('%.0f', number) end
local bytes, old = ARGV[3], value or ''
local offset = tonumber(ARGV[4]) or #old
if ARGV[4] ~= '' and bytes == '' then return #old end
if offset + #bytes > tonumber(ARGV[2]) then return {ok = '?'} end
local padding = string.rep('\0', offset - #old)
local new = string.sub(old, 1, offset) .. padding .. bytes .. string.sub(old, offset + #bytes + 1)
if not write(new, expiry) then return {ok = '?'} end
return #new
