--!lua flags=allow-oom
-- Take a run out of sight, if it is at this version: 1, else 0 (2 for one that has a tombstone). Its rows are kept as trash until `sweep`
-- has taken its commits out of the feeds, some at a time, because there may be many.

local book, wake, ready, due, holders, births, graves, trash, rows, index, events, logs, rubbish =
  unpack(KEYS)
local run, version, tombstone_us = ARGV[1], ARGV[2], tonumber(ARGV[3])
local stored = redis.call('HGET', book, 'v' .. run)
if not stored then
  return redis.call('ZSCORE', graves, run) and 2 or 0
elseif string.match(stored, '^%d+') ~= version then
  return 0
end
local time = look(book)

local function forget(item)
  redis.call('HDEL', book, item)
  redis.call('ZREM', wake, item)
  redis.call('ZREM', due, item)
end

for _, member in ipairs(redis.call('ZRANGEBYLEX', index, '[w', '[w\255')) do
  forget(string.sub(member, 2))
end
for _, member in ipairs(redis.call('ZRANGEBYLEX', index, '[o', '[o\255')) do
  local id = string.sub(member, 18)
  -- As keys.py escapes.
  local escaped = string.gsub(id, '[%%:{}%c \127]', function(letter)
    return string.format('%%%02X', string.byte(letter))
  end)
  local name = run .. ':' .. escaped
  local place = redis.call('HGET', book, 'r' .. name)
  if place then
    redis.call('ZREM', ready, place)
  end
  forget('r' .. name)
  forget('l' .. name)
  local _, _, lease = row_parts(redis.call('HGET', rows, 'e:' .. id))
  if lease ~= '' then
    redis.call('ZREM', holders, cmsgpack.unpack(lease)[3])
  end
end
local birth = redis.call('HGET', rows, 'birth')
if birth then
  redis.call('ZREM', births, birth)
end
redis.call('HDEL', book, 'v' .. run)
redis.call('ZREMRANGEBYSCORE', graves, '-inf', '(' .. text(time.now))
redis.call('ZADD', graves, time.now + tombstone_us, run)
redis.call('RENAME', rows, rubbish)
redis.call('ZADD', trash, tonumber(version), run)
redis.call('UNLINK', index, events, logs)
keep(time)
return 1
