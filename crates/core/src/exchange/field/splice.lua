-- Bytes; where they go, nothing for behind the value. Answers the length that came of it.
if number then value, number = string.format('%.0f', number), nil end
local bytes, old = argv[at + 3], value or ''
local offset = tonumber(argv[at + 4]) or #old
if argv[at + 4] ~= '' and bytes == '' then
  answer = #old
elseif offset + #bytes > longest then
  unsure = true
else
  local padding = string.rep('\0', offset - #old)
  value = string.sub(old, 1, offset) .. padding .. bytes .. string.sub(old, offset + #bytes + 1)
  answer, changed = #value, true
end
