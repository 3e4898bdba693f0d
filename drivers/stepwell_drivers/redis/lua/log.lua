--!lua flags=
-- Append to a run's log: 1, or 0 for a run that isn't there. The oldest entries go when there are many.
-- `again`: nobody knows whether the same call was heard before.

local book, rows, logs = unpack(KEYS)
local run, entries_max, call, again = unpack(ARGV, 1, 4)
if redis.call('HEXISTS', book, 'v' .. run) == 0 then
  return 0
end
if again ~= '' then
  for _, entry in ipairs(redis.call('XREVRANGE', logs, '+', '-', 'COUNT', 1000)) do
    if entry[2][4] == call then
      return 1
    end
  end
end
local seq = tonumber(redis.call('HGET', rows, 'ls') or 0)
for at = 5, #ARGV do
  seq = seq + 1
  redis.call('XADD', logs, 'MAXLEN', '~', entries_max, text(seq) .. '-0', 'd', ARGV[at], 'c', call)
end
redis.call('HSET', rows, 'ls', text(seq))
return 1
