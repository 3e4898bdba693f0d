--!lua flags=no-writes
-- A run's rows, all of one version: everything that the loop needs, or what commits since a version
-- changed.

local book, rows, index = unpack(KEYS)
local run, since, commits_max, requests_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]),
  tonumber(ARGV[4])
local time, found = look(book, 'v' .. run)
local line = found[4]
if not line then
  return false
end
local version, id = string.match(line, '^(%d+) %d+ %S+ %S+ %S+ (.*)$')
version = tonumber(version)

local function names(letter, skip)
  local members = redis.call('ZRANGEBYLEX', index, '[' .. letter, '[' .. letter .. '\255')
  for at, member in ipairs(members) do
    members[at] = string.sub(member, skip)
  end
  return members
end

local function fields(prefix, list)
  local named = {}
  for at, name in ipairs(list) do
    named[at] = prefix .. name
  end
  return named
end

-- Splits a commit's record: its id, and the changed keys (false: too many to list).
local function parts_of(record)
  local id_size, size, at = string.match(record, '^%d+ %d+ %d+ (%d+) (%d+) ()')
  id_size, size = tonumber(id_size), tonumber(size)
  return string.sub(record, at, at + id_size - 1),
    cmsgpack.unpack(string.sub(record, at + id_size, at + id_size + size - 1))
end

-- The keys that the commits since then changed; nil if there are too many commits, or one lists no
-- keys.
local function delta()
  if since <= 0 or since > version or version - since > commits_max then
    return nil
  end
  local versions = {}
  for at = since + 1, version do
    versions[#versions + 1] = text(at)
  end
  local sets = { {}, {}, {}, {}, {} }
  local lists = { {}, {}, {}, {}, {} }
  for at, record in ipairs(pick(rows, fields('c:', versions))) do
    local _, changed = parts_of(record)
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

-- The tasks of all plans. A task that a later plan redefined is in both, and has one row.
local function all_tasks(revisions)
  local ids, is_named = {}, {}
  for _, order in ipairs(pick(rows, fields('po:', revisions))) do
    for _, id in ipairs(cmsgpack.unpack(order)) do
      if not is_named[id] then
        is_named[id] = true
        ids[#ids + 1] = id
      end
    end
  end
  return ids
end

local function open_executions()
  local numbers = {}
  for number in string.gmatch(string.match(redis.call('HGET', rows, 'x') or '', ' .*$') or '', '%d+') do
    numbers[#numbers + 1] = number
  end
  local ids = pick(rows, fields('x:', numbers))
  for at, linked in ipairs(ids) do
    ids[at] = string.match(linked, '^%d+ (.*)$')
  end
  return ids
end

-- Adds the open executions whose leases recorded something: no commit names them.
local function add_recorded(executions)
  local is_named, others = {}, {}
  for _, name in ipairs(executions) do
    is_named[name] = true
  end
  for _, name in ipairs(open_executions()) do
    if not is_named[name] then
      others[#others + 1] = name
    end
  end
  for at, sums in ipairs(pick(rows, fields('lr:', others))) do
    if sums then
      executions[#executions + 1] = others[at]
    end
  end
end

local head = redis.call('HMGET', rows, 'run', 'spec', 'j')
local changed = delta()
local plans, tasks, executions, questions, requests
if changed then
  plans, tasks, executions, questions, requests = unpack(changed)
  if head[3] then
    add_recorded(executions)
  end
else
  plans, questions = names('p', 2), names('a', 18)
  for at, revision in ipairs(plans) do
    plans[at] = text(tonumber(revision))
  end
  tasks, executions = all_tasks(plans), open_executions()
  requests = redis.call('ZREVRANGEBYLEX', index, '[q\255', '[q', 'LIMIT', 0, requests_max)
  for at, name in ipairs(requests) do
    requests[at] = text(tonumber(string.sub(name, 2)))
  end
end
local leased = {}
for _, name in ipairs(executions) do
  leased[#leased + 1] = 'e:' .. name
  leased[#leased + 1] = 'lp:' .. name
  leased[#leased + 1] = 'ls:' .. name
  leased[#leased + 1] = 'lr:' .. name
end
local named = redis.call('ZREVRANGEBYLEX', index, '[h\255', '[h', 'LIMIT', 0, 1)[1]
local since_id = changed and parts_of(redis.call('HGET', rows, 'c:' .. text(since))) or ''
return {
  text(time.now), changed and 0 or 1, head[1], head[2],
  pick(rows, fields('p:', plans)), pick(rows, fields('t:', tasks)), pick(rows, leased),
  pick(rows, fields('i:', questions)), pick(rows, fields('q:', requests)),
  named and redis.call('HGET', rows, 'h:' .. string.sub(named, 2)) or false,
  id, since_id,
}
