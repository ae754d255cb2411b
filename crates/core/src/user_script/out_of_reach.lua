-- Whether a key's value, to which what is stored in its bucket points, may lie at another node by now: while their slot is moved key by
-- key, no script reaches it there, and in the midst of one it is too late to say so. That a slot is on its way, at either end of it,
-- a node says of two names at once that nobody has. What a place is, its physical key, the field and what names of spilled values
-- begin with are as a spot has them.
local is_on_its_way
local function is_out_of_reach(key, kind, bucket, field, head)
  -- Only before a cluster do names have their slot's tag.
  if kind ~= 'field' or string.byte(head, 2) ~= 123 then return false end
  if is_on_its_way == nil then is_on_its_way = type(real.pcall('EXISTS', head .. '<', head .. '>')) == 'table' end
  local stored = is_on_its_way and real.pcall('HGET', bucket, field)
  local tag = type(stored) == 'string' and string.byte(stored)
  if not tag or tag < 8 or tag > 10 then return false end
  local from = tag == 8 and 2 or tag == 9 and 7 or 10
  -- Of parts some are here and some there until all have come.
  if #stored > from + 8 then return true end
  --@numerals
  return real.pcall('EXISTS', spill_name(head, key, string.sub(stored, from, from + 7))) ~= 1
end
