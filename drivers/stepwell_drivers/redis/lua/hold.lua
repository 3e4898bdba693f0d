--!lua flags=allow-oom
-- Hold what a peek returned, if it is unchanged: 1 for each, else 0. A ready step is named by its
-- place, a due item by itself and its moment.

local book, wake, ready, due = unpack(KEYS)
local time = look(book)
local till = after(time.now, tonumber(ARGV[1]))
local answers = {}

local function hold(name, moment)
  if moment == '' then
    return redis.call('ZREM', ready, name) == 1 and 'r' .. name
  end
  local score = redis.call('ZSCORE', due, name)
  return score and fixed(tonumber(score)) == moment and redis.call('ZREM', due, name) == 1
    and 'h' .. moment .. name
end

for at = 2, #ARGV, 2 do
  local held = hold(ARGV[at], ARGV[at + 1])
  if held then
    redis.call('ZADD', wake, till, held)
  end
  answers[#answers + 1] = held and 1 or 0
end
return answers
