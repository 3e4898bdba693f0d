--!lua flags=no-writes
-- The workers of one tenant that are connected.

local book, untils, workers = unpack(KEYS)
local now = look(book).now
return pick(workers, redis.call('ZRANGEBYSCORE', untils, '(' .. text(now), '+inf'))
