--!lua flags=allow-oom
-- Hide a run, if it is at this version and has no forks: its deletion's stamp in the feeds, else 0 (2 for one that
-- may not be created). Deletions whose tombstones are over leave the feeds, as many as a script may take. Its rows
-- stay until `sweep` has taken its commits out of the feeds, some at a time, because there may be many. The
-- idempotency keys that its tasks held stand among them, for `free`.

local book, wake, ready, due, holders, lists, logged, tombstones, trash, rows, index, logs, log_marks,
  rubbish, feed, tenant_feed, deletions = unpack(KEYS)
local run, version, tombstone_us, floor = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local line = redis.call('HGET', book, 'v' .. run)
if not line then
  return redis.call('ZSCORE', tombstones, run) and 2 or 0
elseif string.match(line, '^%d+') ~= version or has_forks(lists, run) then
  return 0
end
local time = look(book)

local function members(letter, skip)
  local found = redis.call('ZRANGEBYLEX', index, '[' .. letter, '[' .. letter .. '\255')
  for at, member in ipairs(found) do
    found[at] = string.sub(member, skip)
  end
  return found
end

local function forget(item, moment)
  redis.call('ZREM', wake, item, 'h' .. moment .. item)
  redis.call('ZREM', due, item)
end

for _, name in ipairs(members('w', 1)) do
  forget('t' .. run .. ':' .. string.sub(name, 3), redis.call('HGET', rows, name))
end
local open = string.match(redis.call('HGET', rows, 'x') or '', ' .*$')
for number in string.gmatch(open or '', '%d+') do
  local id = string.match(redis.call('HGET', rows, 'x:' .. number), '^%d+ (.*)$')
  local state, _, token, has = row_parts(redis.call('HGET', rows, 'e:' .. id))
  if state == 'R' then
    redis.call('ZREM', ready, has)
    redis.call('ZREM', wake, 'r' .. has)
  elseif token ~= '' then
    -- As keys.py escapes.
    local name = run .. ':' .. string.gsub(id, '[%%:{}%c \127]', function(letter)
      return string.format('%%%02X', string.byte(letter))
    end)
    local moment, limit, _, who = lease_parts(has)
    forget(lease_item(name, limit, token), moment)
    redis.call('ZREM', holders, holder(who, name, token))
  end
end
for _, id in ipairs(members('a', 18)) do
  redis.call('ZREM', lists, asked_place(run, redis.call('HGET', rows, 'i:' .. id), id))
end
local head = redis.call('HMGET', rows, 'birth', 'fork')
local pipeline = string.match(head[1], '^[^\1]*\1[^\1]*\1([^\1]*)')
many('ZREM', lists, ended_places(run, line, pipeline))
redis.call('ZREM', lists, head[1], head[2] or '')
redis.call('ZREM', logged, run)
redis.call('HDEL', book, 'v' .. run)
redis.call('ZREMRANGEBYSCORE', tombstones, '-inf', '(' .. text(time.now))
redis.call('ZADD', tombstones, time.now + tombstone_us, run)
local held = members('d', 2)
if #held > 0 then
  redis.call('HSET', rows, 'held', cmsgpack.pack(held))
end
redis.call('RENAME', rows, rubbish)
redis.call('ZADD', trash, tonumber(version), run)
redis.call('UNLINK', index, logs, log_marks)
local over = redis.call('ZRANGEBYSCORE', deletions, '-inf', text(time.now - tombstone_us),
  'LIMIT', 0, 1000)
if #over > 0 then
  redis.call('XDEL', feed, unpack(over))
  redis.call('XDEL', tenant_feed, unpack(over))
  redis.call('ZREM', deletions, unpack(over))
end
time.stamp = math.max(time.now, time.stamp + 1, floor + 1)
local id = text(time.stamp) .. '-0'
-- A version below zero is a deletion.
redis.call('XADD', feed, id, run, '-' .. version)
redis.call('XADD', tenant_feed, id, run, '-' .. version)
redis.call('ZADD', deletions, text(time.stamp), id)
keep(time)
return time.stamp
