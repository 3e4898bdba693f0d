--!lua flags=allow-oom
-- Remove the oldest entries of a run's log that are old enough and not later than `latest`; return
-- how many.

local book, logs, log_marks, logged = unpack(KEYS)
local run, older_us, latest, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local till = math.min(look(book).now - older_us, latest)
local found = till >= 0 and redis.call('XRANGE', logs, '-', text(till), 'COUNT', limit) or {}
if #found > 0 then
  local moment, number = string.match(found[#found][1], '^(%d+)-(%d+)$')
  redis.call('XTRIM', logs, 'MINID', moment .. '-' .. text(tonumber(number) + 1))
end
local oldest = redis.call('XRANGE', logs, '-', '+', 'COUNT', 1)[1]
if oldest then
  redis.call('ZADD', logged, 'XX', string.match(oldest[1], '^%d+'), run)
else
  redis.call('UNLINK', logs, log_marks)
  redis.call('ZREM', logged, run)
end
return #found
