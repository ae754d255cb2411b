-- `pcall`, whose errors say that they happened in a function.
local pcall = (function()
  local caught = pcall
  local function named(is_done, why, ...)
    if not is_done and type(why) == 'string' then why = string.gsub(why, '^user_script:', 'user_function:') end
    return is_done, why, ...
  end
  return function(...) return named(caught(...)) end
end)()
