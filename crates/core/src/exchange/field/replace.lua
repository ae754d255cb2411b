-- NX or XX, or nothing; GET for the old value as the answer; when the new one expires in five bytes, KEEP for when the old one
-- did, nothing for never; the new value. Answers 1 where it wrote, else nil.
if number then value, number = string.format('%.0f', number), nil end
local condition, to = argv[at + 3], argv[at + 5]
changed = condition == '' or (condition == 'XX') == (value ~= false)
answer = changed
if argv[at + 4] == 'GET' then answer = value end
if changed then
  if to ~= 'KEEP' then expiry = to ~= '' and to or nil end
  value = argv[at + 6]
end
