-- The bit's offset; 0 or 1. Answers what it was.
if number then value, number = string.format('%.0f', number), nil end
local old, offset = value or '', tonumber(argv[at + 3])
local index, weight = math.floor(offset / 8), 2 ^ (7 - offset % 8)
local byte = string.byte(old, index + 1) or 0
answer, changed = math.floor(byte / weight) % 2, true
local padding = string.rep('\0', index - #old)
byte = string.char(byte + (argv[at + 4] - answer) * weight)
value = string.sub(old, 1, index) .. padding .. byte .. string.sub(old, index + 2)
