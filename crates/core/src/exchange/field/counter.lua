-- By how much. Answers the sum.
local sum = number or value and number_of(value)
if value and (not sum or sum == true) then
  unsure = true
else
  sum = (sum or 0) + argv[at + 3]
  if sum < 9007199254740992 and sum > -9007199254740992 then
    value, number, answer, changed = '', sum, sum, true
  else
    unsure = true
  end
end
