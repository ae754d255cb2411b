-- ARGV 3: NX or XX, or nothing. 4: GET for the old value as the answer. 5: when the new one expires in five bytes, KEEP for
-- when the old one did, nothing for never. 6: the new value. Answers 1 where it wrote, else nil.
if number then value = string.format('%.0f', number) end
local writes = ARGV[3] == '' or (ARGV[3] == 'XX') == (value ~= false)
if writes then
  local at = ARGV[5] ~= '' and ARGV[5] or nil
  if at == 'KEEP' then at = expiry end
  if not write(ARGV[6], at) then return {ok = '?'} end
end
if ARGV[4] == 'GET' then return value end
return writes
