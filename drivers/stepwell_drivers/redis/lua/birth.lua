--!lua flags=
-- Fix a store's facts at its creation; the first caller decides them.

local meta = KEYS[1]
if redis.call('EXISTS', meta) == 0 then
  redis.call('HSET', meta, unpack(ARGV))
end
return redis.call('HGETALL', meta)
