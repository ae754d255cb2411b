-- ARGV 3: by how much. Answers the sum.
local sum = number or value and number_of(value)
if value and (not sum or sum == true) then return {ok = '?'} end
sum = (sum or 0) + ARGV[3]
local fits = sum < 9007199254740992 and sum > -9007199254740992
if not fits or not write(expiry and '' or string.format('%.0f', sum), expiry, sum) then return {ok = '?'} end
return sum
