-- DEL; else when it is to expire from now on in five bytes, nothing for never. Answers the value.
if number then value, number = string.format('%.0f', number), nil end
local to = argv[at + 3]
answer = value
if value and to == 'DEL' then
  value, expiry, changed = false, nil, true
elseif value and (to ~= '' or expiry) then
  expiry, changed = to ~= '' and to or nil, true
end
