--!lua flags=no-writes
-- Return the last checkpoint with a base, up to a version: its row and the base.

local rows, index = unpack(KEYS)
local found = redis.call('ZREVRANGEBYLEX', index, '[g' .. ARGV[1], '[g', 'LIMIT', 0, 1)[1]
if not found then
  return false
end
local place = string.sub(found, 2)
return redis.call('HMGET', rows, 'h:' .. place, 'g:' .. place)
