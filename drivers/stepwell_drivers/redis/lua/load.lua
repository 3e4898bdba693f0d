--!lua flags=no-writes
-- A run's rows, all of one version: all that the loop needs, or what the commits since then changed.

local book, rows, index = unpack(KEYS)
local run, since, commits_max, requests_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]),
  tonumber(ARGV[4])
local time = look(book, 'v' .. run)
if not time.also then
  return false
end
local version = tonumber(string.match(time.also, '^%d+'))

local function names(letter, skip)
  local found = redis.call('ZRANGEBYLEX', index, '[' .. letter, '[' .. letter .. '\255')
  for at, member in ipairs(found) do
    found[at] = string.sub(member, skip)
  end
  return found
end

-- The keys that the commits since then named; nil: too many, or one that names none.
local function delta()
  if since <= 0 or since > version or version - since > commits_max then
    return nil
  end
  local fields = {}
  for at = since + 1, version do
    fields[#fields + 1] = 'c:' .. text(at)
  end
  local sets = { {}, {}, {}, {}, {} }
  local lists = { {}, {}, {}, {}, {} }
  for at, record in ipairs(pick(rows, fields)) do
    local digits = string.match(record, '^%d+', 17)
    local changed = cmsgpack.unpack(string.sub(record, 18 + #digits + tonumber(digits)))
    if not changed then
      return nil
    end
    if changed[5] then
      changed[5] = { text(since + at) }
    end
    for kind = 1, 5 do
      for _, name in ipairs(changed[kind] or {}) do
        if not sets[kind][name] then
          sets[kind][name] = true
          lists[kind][#lists[kind] + 1] = name
        end
      end
    end
  end
  return lists
end

local function fields(prefix, list)
  local found = {}
  for at, name in ipairs(list) do
    found[at] = prefix .. name
  end
  return found
end

local changed = delta()
local plans, tasks, executions, inputs, requests
if changed then
  plans, tasks, executions, inputs, requests = unpack(changed)
else
  plans, tasks, executions, inputs = names('p', 2), names('t', 25), names('o', 18), names('a', 18)
  for at, revision in ipairs(plans) do
    plans[at] = text(tonumber(revision))
  end
  requests = redis.call('ZREVRANGEBYLEX', index, '[q\255', '[q', 'LIMIT', 0, requests_max)
  for at, name in ipairs(requests) do
    requests[at] = text(tonumber(string.sub(name, 2)))
  end
end
local leased = {}
for _, id in ipairs(executions) do
  leased[#leased + 1] = 'e:' .. id
  leased[#leased + 1] = 'lp:' .. id
  leased[#leased + 1] = 'ls:' .. id
end
local head = redis.call('HMGET', rows, 'run', 'spec')
local named = redis.call('ZREVRANGEBYLEX', index, '[h\255', '[h', 'LIMIT', 0, 1)[1]

local function id_at(number)
  local record = redis.call('HGET', rows, 'c:' .. text(number))
  local digits = record and string.match(record, '^%d+', 17)
  return digits and string.sub(record, 18 + #digits, 17 + #digits + tonumber(digits)) or ''
end
return {
  text(time.now), changed and 0 or 1, head[1], head[2],
  pick(rows, fields('p:', plans)), pick(rows, fields('t:', tasks)), pick(rows, leased),
  pick(rows, fields('i:', inputs)), pick(rows, fields('q:', requests)),
  named and redis.call('HGET', rows, 'h:' .. string.sub(named, 2)) or false,
  id_at(version), changed and id_at(since) or '',
}
