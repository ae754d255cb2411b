-- What is stored in a field for `value`, or for `number`, that expires at `expiry`, in five bytes, or never: `text`; false where
-- Lua might not have the text's number exactly, and where there is no value.
local text = value
if value and expiry then
  local integer = number or number_of(value)
  if integer == true then
    text = false
  elseif integer then
    local size, half = 1, 128
    while size < 7 and (integer < -half or integer >= half) do size, half = size + 1, half * 256 end
    text = '\5' .. expiry .. struct.pack('>i' .. size, integer)
  else
    text = '\1' .. expiry .. value
  end
elseif number then
  text = string.format('%.0f', number)
elseif value and value ~= '' and string.byte(value) < 32 then
  text = '\0' .. value
end
