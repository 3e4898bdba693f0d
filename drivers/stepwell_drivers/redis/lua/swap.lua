--!lua flags=
-- Compare and swap reservations of idempotency keys; return the holder of each afterwards ('':
-- nobody).

local book, reservations = unpack(KEYS)
local time = look(book)
if time.store ~= ARGV[1] then
  return emptied()
end
local stands = {}
for at, swap in ipairs(cmsgpack.unpack(ARGV[2])) do
  local now = redis.call('HGET', reservations, swap.name) or ''
  if now == swap.before and now ~= swap.after then
    now = swap.after
    if now == '' then
      redis.call('HDEL', reservations, swap.name)
    else
      redis.call('HSET', reservations, swap.name, now)
    end
  end
  stands[at] = now
end
-- WAIT covers only what its own connection wrote, so this always writes.
keep(time)
return stands
