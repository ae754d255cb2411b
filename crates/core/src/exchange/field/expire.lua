-- When it is to expire in five bytes, nothing for never; under which conditions, of NX, XX, GT and LT; and for a hash "hash", or the tag of the
-- codec that writes it. Answers 1 where it changed that, else 0.
local to, conditions, is_hash = argv[at + 3] ~= '' and argv[at + 3] or nil, argv[at + 4], (argv[at + 5] or '') ~= ''
local old, passes = expiry, false
if is_hash and value and kept then
  -- It may have no expiry but that of the last of its fields, unless it lies in parts.
  unsure = expiry and kept ~= 8
elseif is_hash and value then
  local head = string.byte(value, coded and 2 or 1)
  passes = head == (coded and 207 or 68)
  if passes then old = nil end
  -- From then on it would expire with the last of its fields, where all do.
  unsure = head == (coded and 206 or 67) and not to
end
changed = not unsure and value and (to or old)
if changed and conditions ~= '' then
  local function wants(condition) return string.find(conditions, condition, 1, true) end
  local new, before = struct.unpack('>I5', to), old and struct.unpack('>I5', old)
  if wants('NX') and old or wants('XX') and not old or wants('GT') and (not old or new <= before) or wants('LT') and old and new >= before then
    changed = false
  end
end
if changed then
  expiry = to
  if passes then value = (coded and 'E\206' or 'C') .. string.sub(value, coded and 3 or 2) end
end
answer = changed and 1 or 0
