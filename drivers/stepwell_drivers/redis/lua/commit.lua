--!lua flags=
-- Commits of one run, in their order, each applied wholly or not at all: a letter each (C committed,
-- X conflict, L lease lost, E events that don't follow), then the time and the last stamp.
--
-- A stamp is the commit's place in the partition's feed: above all before it here, and above the
-- caller's floor, so that what one caller does one after another is in that order over all partitions;
-- of what comes together, each is as much later as it stands behind the first.
--
-- Each command that writes is written to the log as well, and costs twice: so what a commit changes is
-- noted first and written at its end, one command for each key.

local book, wake, ready, due, holders, lists, tombstones, feed, tenant_feed, rows, index, events =
  unpack(KEYS)
local run, floor = ARGV[1], tonumber(ARGV[2])
-- A fork that nobody of its family is there for may not be born.
local is_orphan, store, behind = unpack(cmsgpack.unpack(ARGV[3]))
local time = look(book, 'v' .. run)
if time.store ~= store then
  return emptied()
end
local now = time.now
local line = time.also or ''
local version = tonumber(string.match(line, '^%d+') or 0)

-- --- what is noted ---

-- Rows come beside the commit, which has their numbers.
local first
local function row_at(number)
  return ARGV[first + number]
end

-- The rows as they are by now; rows, book and indexes as they are to be.
local kept, sets, marks, notes, moments, starts, ends, listed

local function set(field, value)
  kept[field] = value
  sets[#sets + 1] = field
  sets[#sets + 1] = value
end

-- Of what one commit adds and takes away, the last counts.
local function add(member)
  marks[member] = true
end

local function drop(member)
  marks[member] = false
end

-- `moment`: when it wakes; false: never. `known`: it may be asleep or due already.
local function arm(item, moment, known)
  local was = moments[item]
  moments[item] = { moment, known or (was and was[2]) }
end

local function note(item, value)
  notes[item] = value
end

-- --- what is looked at before anything is written ---

local HEADS = { 'xs', 'ms', 'is', 'qn', 'ev' }

local function read(commit)
  kept = {}
  if version == 0 then
    return
  end
  local fields = { unpack(HEADS) }
  local function want(field)
    if kept[field] == nil then
      kept[field] = false
      fields[#fields + 1] = field
    end
  end
  for at = 1, #commit.tasks, 4 do
    want('t:' .. commit.tasks[at])
  end
  for _, list in ipairs({ commit.executions, commit.leases }) do
    for _, part in ipairs(list) do
      local id = part[1]
      want('e:' .. id)
      want('lp:' .. id)
      want('ls:' .. id)
    end
  end
  for at = 1, #commit.fences, 2 do
    want('e:' .. commit.fences[at])
  end
  for at = 1, #commit.outcomes, 3 do
    want('u:' .. commit.outcomes[at])
  end
  for at = 1, #commit.inputs, 3 do
    want('i:' .. commit.inputs[at])
  end
  for at, value in ipairs(pick(rows, fields)) do
    kept[fields[at]] = value
  end
end

local function refusal(commit)
  if version ~= commit.version - 1
    or (version == 0 and (is_orphan or redis.call('ZSCORE', tombstones, run))) then
    if commit.version >= 1 and commit.version <= version then
      local record = redis.call('HGET', rows, 'c:' .. text(commit.version))
      if record and string.sub(record, 17, 16 + #commit.id) == commit.id then
        return 'C'
      end
    end
    return 'X'
  end
  -- What it was decided on may be lost, and something else be there by now.
  local follows = commit.follows
  if follows ~= '' and version > 0 then
    local record = redis.call('HGET', rows, 'c:' .. text(version))
    if not record or string.sub(record, 17, 16 + #follows) ~= follows then
      return 'X'
    end
  end
  read(commit)
  local fences = commit.fences
  for at = 1, #fences, 2 do
    local row = kept['e:' .. fences[at]]
    local _, _, lease = row_parts(row or string.rep('0', 23))
    if lease == '' or cmsgpack.unpack(lease)[1] ~= fences[at + 1] then
      return 'L'
    end
  end
  local last = tonumber(kept.ev or 0)
  for at = 1, #commit.events, 2 do
    if commit.events[at] <= last then
      return 'E'
    end
    last = commit.events[at]
  end
end

-- --- rows of each kind ---

local function place_of(id, revision, place, old)
  if place >= 0 then
    return fixed(revision) .. string.format('%07d', place)
  end
  if old and tonumber(string.sub(old, 1, 16)) == revision then
    return string.sub(old, 1, 23)
  end
  -- A row whose plan came earlier: rare enough to look through the plan's order.
  local order = redis.call('HGET', rows, 'po:' .. text(revision))
  local ids = order and cmsgpack.unpack(order) or {}
  place = #ids
  for at = 1, #ids do
    if ids[at] == id then
      place = at - 1
    end
  end
  return fixed(revision) .. string.format('%07d', place)
end

local function put_tasks(tasks)
  for at = 1, #tasks, 4 do
    local id, revision, row = tasks[at], tasks[at + 1], row_at(tasks[at + 3])
    local old = kept['t:' .. id]
    local place = place_of(id, revision, tasks[at + 2], old)
    if not old or string.sub(old, 1, 23) ~= place then
      if old then
        drop('t' .. string.sub(old, 1, 23) .. id)
      end
      add('t' .. place .. id)
    end
    set('t:' .. id, place .. row)
  end
end

local function drop_ready(name)
  local place = notes['r' .. name]
  if place == nil then
    place = redis.call('HGET', book, 'r' .. name)
  end
  note('r' .. name, false)
  if place and redis.call('ZREM', ready, place) == 0 then
    arm('r' .. name, false, true)
  end
end

local function end_lease(id, name, lease)
  ends[#ends + 1] = cmsgpack.unpack(lease)[3]
  note('l' .. name, false)
  arm('l' .. name, false, true)
  if kept['lp:' .. id] or kept['ls:' .. id] then
    redis.call('HDEL', rows, 'lp:' .. id, 'ls:' .. id)
    kept['lp:' .. id], kept['ls:' .. id] = false, false
  end
end

local function execution_row(seq, state, lease, row)
  return seq .. state .. string.format('%06d', #lease) .. lease .. row
end

local OPEN = { R = true, L = true, U = true }

local function put_execution(execution, heads, stamp)
  local id, escaped, state, row, task, lane, rank, delay, number = unpack(execution)
  local name = run .. ':' .. escaped
  local old = kept['e:' .. id]
  local seq, was, lease = nil, nil, ''
  if old then
    seq, was, lease = row_parts(old)
  else
    heads.xs = heads.xs + 1
    seq = fixed(heads.xs)
    add('x' .. seq .. id)
    add('k' .. task .. '\1' .. seq .. id)
  end
  if was == 'R' then
    drop_ready(name)
  end
  if lease ~= '' and state ~= 'L' and state ~= 'U' then
    end_lease(id, name, lease)
    lease = ''
  elseif lease ~= '' then
    local moment = notes['l' .. name] or redis.call('HGET', book, 'l' .. name)
    arm('l' .. name, state == 'L' and tonumber(string.sub(moment, 1, 16)), true)
  end
  if OPEN[state] and not OPEN[was] then
    add('o' .. seq .. id)
  elseif OPEN[was] and not OPEN[state] then
    drop('o' .. seq .. id)
  end
  set('e:' .. id, execution_row(seq, state, lease, row_at(row)))
  if state == 'R' then
    local moment = after(now, delay)
    local place = lane .. '\1' .. rank .. fixed(moment) .. fixed(stamp)
      .. string.format('%05d', number) .. 'r' .. name
    note('r' .. name, place)
    if moment > now then
      arm('r' .. name, moment)
    else
      if moments['r' .. name] then
        arm('r' .. name, false)
      end
      redis.call('ZADD', ready, 0, place)
    end
  end
end

local function put_lease(new)
  local id, escaped, token, lease_us, limit_us, holder = unpack(new)
  local name = run .. ':' .. escaped
  local old = kept['e:' .. id]
  if not old or string.sub(old, 17, 17) ~= 'L' then
    return
  end
  local seq, state, lease = row_parts(old)
  if lease ~= '' then
    end_lease(id, name, lease)
  end
  local limit = limit_us > 0 and after(now, limit_us) or 0
  local moment = after(now, lease_us)
  if limit > 0 then
    moment = math.min(moment, limit)
  end
  set('e:' .. id, execution_row(seq, state, cmsgpack.pack({ token, text(limit), holder }),
    string.sub(old, 24 + #lease)))
  note('l' .. name, fixed(moment) .. fixed(limit) .. token)
  arm('l' .. name, moment)
  starts[#starts + 1] = holder
end

local function put_timer(escaped, delay)
  local item = 't' .. run .. ':' .. escaped
  if delay < 0 then
    note(item, false)
    arm(item, false, true)
    drop('w' .. item)
    return
  end
  local moment = after(now, delay)
  note(item, fixed(moment))
  arm(item, moment, true)
  add('w' .. item)
end

local function put_input(id, is_open, row, heads, stamp)
  local old = kept['i:' .. id]
  local before
  if old then
    before = string.sub(old, 1, 32)
  else
    heads.is = heads.is + 1
    before = fixed(heads.is) .. fixed(stamp)
    add('i' .. string.sub(before, 1, 16) .. id)
  end
  if is_open then
    add('a' .. string.sub(before, 1, 16) .. id)
  else
    drop('a' .. string.sub(before, 1, 16) .. id)
  end
  listed[asked_place(run, before, id)] = is_open
  set('i:' .. id, before .. row)
end

local function put_birth(birth, stamp)
  local prefix, suffix, forks, family = unpack(birth)
  set('birth', prefix .. fixed(stamp) .. suffix)
  listed[prefix .. fixed(stamp) .. suffix] = true
  if forks then
    set('fork', forks .. fixed(stamp) .. suffix)
    listed[forks .. fixed(stamp) .. suffix] = true
  end
  if family then
    set('family', family)
    note('f' .. run, family)
  end
end

local function put_request(commit, heads)
  local row, most = unpack(commit.request)
  set('q:' .. text(commit.version), row_at(row))
  add('q' .. fixed(commit.version))
  heads.qn = heads.qn + 1
  if heads.qn > most then
    local oldest = redis.call('ZRANGEBYLEX', index, '[q', '[q\255', 'LIMIT', 0, 1)[1]
    drop(oldest)
    redis.call('HDEL', rows, 'q:' .. text(tonumber(string.sub(oldest, 2))))
    heads.qn = heads.qn - 1
  end
end

-- --- writing ---

local function write_names(key, names)
  local adds, drops = {}, {}
  for member, there in pairs(names) do
    if there then
      adds[#adds + 1] = 0
      adds[#adds + 1] = member
    else
      drops[#drops + 1] = member
    end
  end
  many('ZREM', key, drops)
  many('ZADD', key, adds)
end

-- A line that tells an end ends with its moment, all others with a word.
local function tells_end(line)
  return string.byte(line, -1) <= 57
end

local function put_end(was, pipeline)
  for _, place in ipairs(ended_places(run, was, pipeline)) do
    listed[place] = false
  end
  for _, place in ipairs(ended_places(run, line, pipeline)) do
    listed[place] = true
  end
end

local function write_agenda()
  local asleep, overdue, awake, maybe, new = {}, {}, {}, {}, 0
  for item, arming in pairs(moments) do
    local moment, known = arming[1], arming[2]
    if moment and moment > now then
      asleep[#asleep + 1] = moment
      asleep[#asleep + 1] = item
      new = new + (known and 0 or 1)
    else
      awake[#awake + 1] = item
      if moment then
        overdue[#overdue + 1] = moment
        overdue[#overdue + 1] = item
      end
    end
    if known then
      maybe[#maybe + 1] = item
    end
  end
  -- What may come due is asleep or due, never both.
  local were_due = many('ZREM', wake, awake) < #awake
  were_due = many('ZADD', wake, asleep) > new or were_due
  if were_due then
    many('ZREM', due, maybe)
  end
  many('ZADD', due, overdue)
end

local function write_book(stamped)
  local lines, gone = { 'v' .. run, line }, {}
  for item, value in pairs(notes) do
    if value then
      lines[#lines + 1] = item
      lines[#lines + 1] = value
    else
      gone[#gone + 1] = item
    end
  end
  many('HDEL', book, gone)
  for _, part in ipairs({ '#last', text(now), '#offset', text(time.offset), '#stamp', stamped }) do
    lines[#lines + 1] = part
  end
  many('HSET', book, lines)
end

local function write_holders()
  many('ZREM', holders, ends)
  for at, holder in ipairs(starts) do
    redis.call('ZADD', holders, 0, holder)
  end
end

local function apply(commit, steps)
  local stamp = math.max(now + steps, time.stamp + 1, floor + 1 + steps)
  time.stamp = stamp
  version = commit.version
  local was = line
  local numbered, stamped = text(version), text(stamp)
  line = numbered .. ' ' .. commit.line
  local heads = { xs = tonumber(kept.xs or 0), ms = tonumber(kept.ms or 0),
    is = tonumber(kept.is or 0), qn = tonumber(kept.qn or 0) }
  sets, marks, notes, moments, starts, ends, listed = {}, {}, {}, {}, {}, {}, {}
  for at = 1, #commit.sets, 2 do
    set(commit.sets[at], row_at(commit.sets[at + 1]))
  end
  for _, member in ipairs(commit.listed) do
    add(member)
  end
  if commit.birth then
    put_birth(commit.birth, stamp)
  end
  if commit.order then
    local revision, ids = unpack(commit.order)
    set('po:' .. text(revision), cmsgpack.pack(ids))
    add('p' .. fixed(revision))
  end
  put_tasks(commit.tasks)
  for _, execution in ipairs(commit.executions) do
    put_execution(execution, heads, stamp)
  end
  for _, lease in ipairs(commit.leases) do
    put_lease(lease)
  end
  for at = 1, #commit.outcomes, 3 do
    local id = commit.outcomes[at]
    -- Written once: the first result of an execution is its result.
    if not kept['u:' .. id] then
      set('u:' .. id, row_at(commit.outcomes[at + 1]))
      if commit.outcomes[at + 2] then
        set('b:' .. id, row_at(commit.outcomes[at + 2]))
      end
    end
  end
  for at = 1, #commit.timers, 2 do
    put_timer(commit.timers[at], commit.timers[at + 1])
  end
  for at = 1, #commit.inputs, 3 do
    put_input(commit.inputs[at], commit.inputs[at + 1], row_at(commit.inputs[at + 2]), heads, stamp)
  end
  for at = 1, #commit.events, 2 do
    redis.call('XADD', events, text(commit.events[at]) .. '-0', 'v', numbered,
      'd', row_at(commit.events[at + 1]))
  end
  if #commit.events > 0 then
    set('ev', text(commit.events[#commit.events - 1]))
  end
  for at = 1, #commit.messages, 2 do
    heads.ms = heads.ms + 1
    local seq = fixed(heads.ms)
    set('m:' .. seq, row_at(commit.messages[at + 1]))
    add('y' .. seq)
    add('j' .. commit.messages[at] .. '\1' .. seq)
  end
  if commit.request then
    put_request(commit, heads)
  end
  -- For its deletion: reservations lie in other partitions.
  for _, name in ipairs(commit.held) do
    add('d' .. name)
  end
  if tells_end(line) or (was ~= '' and tells_end(was)) then
    put_end(was, commit.pipeline)
  end
  for head, value in pairs(heads) do
    if value ~= tonumber(kept[head] or 0) then
      set(head, text(value))
    end
  end
  set('c:' .. numbered, fixed(stamp) .. commit.id .. row_at(commit.changed))
  many('HSET', rows, sets)
  write_names(index, marks)
  if next(listed) then
    write_names(lists, listed)
  end
  write_agenda()
  write_book(stamped)
  write_holders()
  local id = stamped .. '-0'
  redis.call('XADD', feed, id, 'r', run, 'v', numbered)
  redis.call('XADD', tenant_feed, id, 'r', run, 'v', numbered)
end

local verdicts, wrote = {}, false
first = 4
while first <= #ARGV do
  local commit = cmsgpack.unpack(ARGV[first])
  local verdict = refusal(commit)
  if not verdict then
    apply(commit, behind[#verdicts + 1])
    verdict, wrote = 'C', true
  end
  verdicts[#verdicts + 1] = verdict
  first = first + 1 + commit.rows
end
if not wrote then
  -- Who waits for replicas waits for what this connection wrote: so it always writes.
  keep(time)
end
return table.concat(verdicts) .. ' ' .. text(now) .. ' ' .. text(time.stamp)
