-- What is stored for such a hash.
if value and coded then
  text = string.char(expiry and coded + 1 or coded) .. (expiry or '') .. string.sub(value, 2)
end
