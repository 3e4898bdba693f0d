--!lua flags=allow-oom
-- Remove a limited number of the entries of one kind that one execution wrote: how many, and 1 if
-- there may be more, else 0. Reads from the execution's first entry to its last, through what
-- others wrote between them.

local logs, log_marks, logged = unpack(KEYS)
local run, name, at_once = ARGV[1], ARGV[2], tonumber(ARGV[3])
local mark = redis.call('HGET', log_marks, name)
if not mark then
  return { 0, 0 }
end
local first, last = string.match(mark, '^(%S+) (%S+)$')
local found = redis.call('XRANGE', logs, first, last, 'COUNT', at_once)
local ids = {}
for _, entry in ipairs(found) do
  if entry[2][6] == name then
    ids[#ids + 1] = entry[1]
  end
end
if #ids > 0 then
  redis.call('XDEL', logs, unpack(ids))
end
if #found == at_once then
  redis.call('HSET', log_marks, name, '(' .. found[#found][1] .. ' ' .. last)
  return { #ids, 1 }
end
redis.call('HDEL', log_marks, name)
if redis.call('XLEN', logs) == 0 then
  redis.call('UNLINK', logs, log_marks)
  redis.call('ZREM', logged, run)
end
return { #ids, 0 }
