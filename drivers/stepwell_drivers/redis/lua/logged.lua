--!lua flags=no-writes
-- Runs whose logs may have old enough entries, the oldest first, with their moments.

local book, logged = unpack(KEYS)
local older_us, count = tonumber(ARGV[1]), tonumber(ARGV[2])
return redis.call('ZRANGEBYSCORE', logged, '-inf', text(look(book).now - older_us), 'WITHSCORES',
  'LIMIT', 0, count)
