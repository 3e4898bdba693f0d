--!lua flags=allow-oom
-- Hold what a peek showed, if it is still there as it was: 1 each, else 0.

local book, wake, ready, due = unpack(KEYS)
local time = look(book)
local till = after(time.now, tonumber(ARGV[1]))
local answers = {}

local function hold(item, place)
  if string.sub(item, 1, 1) == 'r' then
    return redis.call('ZREM', ready, place) == 1
  end
  local moment = redis.call('ZSCORE', due, item)
  if moment and fixed(tonumber(moment)) == string.sub(place, 1, 16) then
    return redis.call('ZREM', due, item) == 1
  end
  return false
end

for at = 2, #ARGV, 2 do
  local held = hold(ARGV[at], ARGV[at + 1])
  if held then
    redis.call('ZADD', wake, till, ARGV[at])
  end
  answers[#answers + 1] = held and 1 or 0
end
return answers
