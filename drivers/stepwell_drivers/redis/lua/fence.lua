--!lua flags=allow-oom
-- Let none of these forks be born any more, unless it is there: how many are.

local book, tombstones = unpack(KEYS)
local tombstone_us, family = tonumber(ARGV[1]), ARGV[2]
local time = look(book)
local there = 0
for at = 3, #ARGV do
  if redis.call('HGET', book, 'f' .. ARGV[at]) == family then
    there = there + 1
  else
    redis.call('ZADD', tombstones, 'GT', time.now + tombstone_us, ARGV[at])
  end
end
keep(time)
return there
