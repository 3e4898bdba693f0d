--!lua flags=allow-oom
-- Remove these idempotency keys' reservations if a run holds them; return how many.

local reservations = KEYS[1]
local run, freed = ARGV[1], 0
for at = 2, #ARGV do
  local now = redis.call('HGET', reservations, ARGV[at])
  if now and string.match(now, '^[^\1]*') == run then
    freed = freed + redis.call('HDEL', reservations, ARGV[at])
  end
end
return freed
