-- The number that a text is the one decimal form of; true where Lua might not have it exactly.
local function number_of(text)
  local found = tonumber(text)
  if not found or text == '-0' then return false end
  if not (found < 1e15 and found > -1e15) then return true end
  return string.format('%.0f', found) == text and found
end
