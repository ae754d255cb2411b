-- ARGV 3: when it is to expire in five bytes, nothing for never. 4: under which conditions, of NX, XX, GT and LT. Answers 1
-- where it changed that, else 0.
if number then value = string.format('%.0f', number) end
if not value then return 0 end
local at, conditions = ARGV[3] ~= '' and ARGV[3] or nil, ARGV[4]
if not at and not expiry then return 0 end
if conditions ~= '' then
  local function wants(condition) return string.find(conditions, condition, 1, true) end
  local new, old = struct.unpack('>I5', at), expiry and struct.unpack('>I5', expiry)
  if wants('NX') and old or wants('XX') and not old or wants('GT') and (not old or new <= old) or wants('LT') and old and new >= old then
    return 0
  end
end
if not write(value, at) then return {ok = '?'} end
return 1
