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
  if type(stored) ~= 'string' then return false end
  --@pointed
  local nonce, _, is_in_parts = pointed(stored)
  -- Of parts some are here and some there until all have come.
  if not nonce or is_in_parts then return is_in_parts or false end
  --@numerals
  return real.pcall('EXISTS', spill_name(head, key, nonce)) ~= 1
end
