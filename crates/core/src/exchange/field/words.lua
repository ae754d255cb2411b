-- What is to be done with members: what to do, the type, and members; or fields with values. Answers how many are new, or were there. The tag of a codec
-- instead of the type is for a hash that it writes by a vocabulary; fields are given as they stand there.
local what, is_hash, names, done = argv[at + 3], argv[at + 4] ~= 'set', tonumber(argv[at + 4]), 0
local words = at + 2 + argv[at + 2]
local head = value and (string.byte(value) or 0)
local lead = head == 69 and string.byte(value, 2)
local expires = is_hash and coded == names and (head == 67 or head == 68 or lead == 206 or lead == 207)
