-- keyfold: what stands before a library of functions, which is a function itself here and comes behind. While it is loaded its
-- `redis` has no more than a library being loaded has; its functions find the one that finds declared keys where they lie. The
-- last three of the script's own arguments are the name of the function to be called, a number, and what was looked at before.
return (function(library)
  local in_calls, count, callback = redis, #ARGV, nil
  local wanted, number = ARGV[count - 2], ARGV[count - 1]
  for at = count, count - 2, -1 do ARGV[at] = nil end
  --@seed
  redis = setmetatable({
    register_function = function(name, given)
      if type(name) == 'table' then name, given = name.function_name, name.callback end
      if name == wanted then callback = given end
    end,
    -- It has said so when it was loaded.
    log = function() end
  }, {__index = function(_, name)
    local value = in_calls[name]
    if value == nil or type(value) == 'function' then
      error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end
    return value
  end, __metatable = false})
  --@server
  library()
  redis = in_calls
  --@server
  if not callback then return redis.error_reply('ERR Function not found') end
  return callback(KEYS, ARGV)
end)
