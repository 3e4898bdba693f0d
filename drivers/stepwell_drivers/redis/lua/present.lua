--!lua flags=allow-oom
-- Record workers of one tenant as connected, each for `ttl`; remove expired ones.

local book, untils, workers = unpack(KEYS)
local ttl = tonumber(ARGV[1])
local time = look(book)
for at = 2, #ARGV, 2 do
  redis.call('ZADD', untils, after(time.now, ttl), ARGV[at])
  redis.call('HSET', workers, ARGV[at], ARGV[at + 1])
end
local over = redis.call('ZRANGEBYSCORE', untils, '-inf', text(time.now), 'LIMIT', 0, 1000)
if #over > 0 then
  redis.call('ZREM', untils, unpack(over))
  redis.call('HDEL', workers, unpack(over))
end
keep(time)
return #over
