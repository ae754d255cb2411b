-- Stores that; `unsure` where it doesn't fit, or the server doesn't take it.
if not value then
  unsure = type(call('HDEL', bucket, field)) == 'table'
else
  unsure = not text or #text > longest or type(call('HSET', bucket, field, text)) == 'table'
end
