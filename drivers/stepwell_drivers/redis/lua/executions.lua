--!lua flags=no-writes
-- A page of a run's executions, or of one task's, in the order of their numbers: numbers and rows.

local rows = KEYS[1]
local after_number, limit, task = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local fields = {}
local numbers, linked = {}, {}
if task == '' then
  local count = tonumber(string.match(redis.call('HGET', rows, 'x') or '0', '^%d+'))
  for number = after_number + 1, math.min(after_number + limit, count) do
    numbers[#numbers + 1] = text(number)
    linked[#linked + 1] = 'x:' .. text(number)
  end
  linked = pick(rows, linked)
else
  -- Each execution of a task names the one before it.
  local found, number = {}, redis.call('HGET', rows, 'k:' .. task) or '0'
  while tonumber(number) > after_number do
    found[#found + 1] = { number, redis.call('HGET', rows, 'x:' .. number) }
    number = string.match(found[#found][2], '^%d+')
  end
  for at = 1, math.min(#found, limit) do
    numbers[at], linked[at] = unpack(found[#found + 1 - at])
  end
end
for at, link in ipairs(linked) do
  fields[at] = 'e:' .. string.match(link, '^%d+ (.*)$')
end
return { numbers, pick(rows, fields) }
