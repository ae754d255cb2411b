-- What is stored for such a hash, and for what was kept.
if value and kept then
  text = string.char(expiry and kept + 1 or kept) .. (expiry or '') .. value
elseif value and coded then
  text = string.char(expiry and coded + 1 or coded) .. (expiry or '') .. string.sub(value, 2)
end
