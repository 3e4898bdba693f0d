--!lua flags=no-writes
-- The connected workers of one tenant.

local book, untils, workers = unpack(KEYS)
local now = look(book).now
return pick(workers, redis.call('ZRANGEBYSCORE', untils, '(' .. text(now), '+inf'))
