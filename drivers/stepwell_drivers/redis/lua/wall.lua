-- The server's wall clock in microseconds.
local function wall_us(book)
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
