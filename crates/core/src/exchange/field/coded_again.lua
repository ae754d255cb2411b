-- What is stored for such a hash, and for what was kept.
local form = kept or coded
if value and form then
  text = string.char(expiry and form + 1 or form) .. (expiry or '') .. (kept and value or string.sub(value, 2))
end
