--!lua flags=allow-oom
-- Heartbeats for leases of one run: 1 if the token matches the lease's, else 0.

local book, wake, due, rows = unpack(KEYS)
local run = ARGV[1]
local time = look(book)
local answers = {}

local function renew(id, escaped, token, lease_us, progress, session)
  local row = redis.call('HGET', rows, 'e:' .. id)
  if not row or not has_token(row, token) then
    return 0
  end
  local state, number, _, lease, from = row_parts(row)
  local last, limit, sign, who = lease_parts(lease)
  local item, moment = lease_item(run .. ':' .. escaped, limit, token), after(time.now, lease_us)
  if tonumber(limit) > 0 then
    moment = math.min(moment, tonumber(limit))
  end
  if state == 'L' and moment > time.now then
    -- An item that didn't sleep is due or held.
    if redis.call('ZADD', wake, moment, item) == 1 then
      redis.call('ZREM', due, item)
      redis.call('ZREM', wake, 'h' .. last .. item)
    end
  elseif state == 'L' then
    redis.call('ZREM', wake, item, 'h' .. last .. item)
    redis.call('ZADD', due, moment, item)
  end
  if (progress or session) and sign == '-' then
    sign = '+'
  end
  lease = lease_row(fixed(moment), limit, sign, who)
  local fields = { 'e:' .. id,
    state .. number .. '\0' .. token .. '\0' .. lease .. '\0' .. string.sub(row, from) }
  for prefix, value in pairs({ lp = progress, ls = session }) do
    if value then
      fields[#fields + 1] = prefix .. ':' .. id
      fields[#fields + 1] = ARGV[2 + value]
    end
  end
  redis.call('HSET', rows, unpack(fields))
  return 1
end

for _, renewal in ipairs(cmsgpack.unpack(ARGV[2])) do
  answers[#answers + 1] = renew(unpack(renewal))
end
keep(time)
return answers
