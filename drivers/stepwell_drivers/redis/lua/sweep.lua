--!lua flags=allow-oom
-- Take the newest commits of a deleted run out of the feeds: how many are left. With the last of them its rows go.

local trash, feed, tenant_feed, rubbish = unpack(KEYS)
local run, at_once = ARGV[1], tonumber(ARGV[2])
local left = tonumber(redis.call('ZSCORE', trash, run) or 0)
local ids = {}
for version = math.max(left - at_once + 1, 1), left do
  local field = 'c:' .. text(version)
  local record = redis.call('HGET', rubbish, field)
  if record then
    ids[#ids + 1] = string.match(record, '^%d+') .. '-0'
  end
end
if #ids > 0 then
  redis.call('XDEL', feed, unpack(ids))
  redis.call('XDEL', tenant_feed, unpack(ids))
end
left = math.max(left - at_once, 0)
if left > 0 then
  redis.call('ZADD', trash, left, run)
else
  redis.call('UNLINK', rubbish)
  redis.call('ZREM', trash, run)
end
return left
