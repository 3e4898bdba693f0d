--!lua flags=
-- Append to a run's log: 1, or 0 if the run doesn't exist. Removes the oldest entries when there
-- are many. `again`: the same call may have been executed before.
--
-- An entry's id is the moment of appending and a number. Ids always rise, whatever was removed in
-- between.

local book, rows, logs, log_marks, logged = unpack(KEYS)
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
local moment, number = string.match(redis.call('HGET', rows, 'ls') or '0-0', '^(%d+)-(%d+)$')
moment, number = tonumber(moment), tonumber(number)
local now = look(book).now
if now > moment then
  moment, number = now, -1
end
local bounds, names = {}, {}
for at = 5, #ARGV, 2 do
  local name = ARGV[at]
  number = number + 1
  local id = text(moment) .. '-' .. text(number)
  redis.call('XADD', logs, 'MAXLEN', '~', entries_max, id, 'd', ARGV[at + 1], 'c', call, 'n', name)
  if not bounds[name] then
    bounds[name] = { id }
    names[#names + 1] = name
  end
  bounds[name][2] = id
end
if #names == 0 then
  return 1
end
local marks = {}
for at, mark in ipairs(pick(log_marks, names)) do
  local first = mark and string.match(mark, '^%S+') or bounds[names[at]][1]
  marks[#marks + 1] = names[at]
  marks[#marks + 1] = first .. ' ' .. bounds[names[at]][2]
end
many('HSET', log_marks, marks)
redis.call('ZADD', logged, 'NX', moment, run)
redis.call('HSET', rows, 'ls', text(moment) .. '-' .. text(number))
return 1
