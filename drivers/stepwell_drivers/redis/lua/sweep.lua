--!lua flags=allow-oom
-- Take the newest commits of a deleted run out of the feeds: how many are left.

local trash, feed, tenant_feed, rubbish = unpack(KEYS)
local run, at_once = ARGV[1], tonumber(ARGV[2])
local left = tonumber(redis.call('ZSCORE', trash, run) or 0)
local ids = {}
for version = math.max(left - at_once + 1, 1), left do
  local record = redis.call('HGET', rubbish, 'c:' .. text(version))
  if record then
    ids[#ids + 1] = text(tonumber(string.sub(record, 1, 16))) .. '-0'
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
  if redis.call('XLEN', tenant_feed) == 0 then
    redis.call('UNLINK', tenant_feed)
  end
end
return left
