--!lua flags=no-writes
-- What was committed last under each of these keys, or '': moment, run and execution.

local lists = KEYS[1]
local found = {}
for at, key in ipairs(ARGV) do
  local last = redis.call('ZREVRANGEBYLEX', lists, '[' .. key .. '\255', '[' .. key, 'LIMIT', 0, 1)[1]
  found[at] = last and string.sub(last, #key + 1) or ''
end
return found
