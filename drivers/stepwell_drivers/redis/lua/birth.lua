--!lua flags=
-- What is fixed when a store is born; who comes first says it.

local meta = KEYS[1]
if redis.call('EXISTS', meta) == 0 then
  redis.call('HSET', meta, unpack(ARGV))
end
return redis.call('HGETALL', meta)
