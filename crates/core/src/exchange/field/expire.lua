-- When it is to expire in five bytes, nothing for never; under which conditions, of NX, XX, GT and LT. Answers 1 where it
-- changed that, else 0.
local to, conditions = argv[at + 3] ~= '' and argv[at + 3] or nil, argv[at + 4]
changed = value and (to or expiry)
if changed and conditions ~= '' then
  local function wants(condition) return string.find(conditions, condition, 1, true) end
  local new, old = struct.unpack('>I5', to), expiry and struct.unpack('>I5', expiry)
  if wants('NX') and old or wants('XX') and not old or wants('GT') and (not old or new <= old) or wants('LT') and old and new >= old then
    changed = false
  end
end
if changed then expiry = to end
answer = changed and 1 or 0
