--!lua flags=allow-oom
-- Heartbeats for leases of one run: 1 where the token is the lease's, else 0.

local book, wake, due, rows = unpack(KEYS)
local run = ARGV[1]
local time = look(book)
local answers = {}

local function renew(id, escaped, token, lease_us, progress, session)
  local row = redis.call('HGET', rows, 'e:' .. id)
  local _, state, lease = row_parts(row or string.rep('0', 23))
  local kept = lease ~= '' and cmsgpack.unpack(lease)
  if not kept or kept[1] ~= token then
    return 0
  end
  local item, limit = 'l' .. run .. ':' .. escaped, tonumber(kept[2])
  local moment = after(time.now, lease_us)
  if limit > 0 then
    moment = math.min(moment, limit)
  end
  redis.call('HSET', book, item, fixed(moment) .. fixed(limit) .. token)
  if state == 'L' then
    redis.call('ZREM', due, item)
    if moment > time.now then
      redis.call('ZADD', wake, moment, item)
    else
      redis.call('ZREM', wake, item)
      redis.call('ZADD', due, moment, item)
    end
  end
  if progress then
    redis.call('HSET', rows, 'lp:' .. id, ARGV[2 + progress])
  end
  if session then
    redis.call('HSET', rows, 'ls:' .. id, ARGV[2 + session])
  end
  return 1
end

for _, renewal in ipairs(cmsgpack.unpack(ARGV[2])) do
  answers[#answers + 1] = renew(unpack(renewal))
end
keep(time)
return answers
