--!lua flags=allow-oom
-- Let none of these runs be born any more, unless it is there: how many are.

local book, graves = unpack(KEYS)
local tombstone_us = tonumber(ARGV[1])
local time = look(book)
local there = 0
for at = 2, #ARGV do
  if redis.call('HEXISTS', book, 'v' .. ARGV[at]) == 1 then
    there = there + 1
  else
    redis.call('ZADD', graves, 'GT', time.now + tombstone_us, ARGV[at])
  end
end
keep(time)
return there
