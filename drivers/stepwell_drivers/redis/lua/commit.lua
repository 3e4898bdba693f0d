--!lua flags=
-- Commits of runs of one partition, in their order, each applied wholly or not at all: a letter each (C
-- committed, X conflict, L lease lost), then the time, the last stamp, and how many listen for hints here.
--
-- A stamp is the commit's place in the partition's feed: above all before it here, and above the
-- caller's floor, so that what one caller does one after another is in that order over all partitions;
-- of what comes together, each is as much later as it stands behind the first.
--
-- The caller sends rows as they are to be written. A commit's arguments are the fields that it looks at, then
-- fields and values that are written as they are, then bodies that something is put in front of; its parts
-- name them by number. Each command that writes goes to the log as well, and costs twice: what commits change
-- in keys that runs share is noted first, and written at the end with one command for each key.

local book, wake, ready, due, holders, lists, tombstones, feed = unpack(KEYS, 1, 8)
local floor, store, channel, runs, commits = unpack(cmsgpack.unpack(ARGV[1]))
local time, lines = look(book, unpack(ARGV, 2, 1 + runs))
if time.store ~= store then
  return emptied()
end
local now = time.now

-- --- what is noted of keys that runs share ---

local told_lines = {}
-- Moments and members.
local asleep, overdue, made_ready, starts, listed
-- Members, and the moments of those that wake no more.
local awake, moments, unready, ends, unlisted

local function note_anew()
  asleep, overdue, made_ready, starts, listed = {}, {}, {}, {}, {}
  awake, moments, unready, ends, unlisted = {}, {}, {}, {}, {}
end

local function push(list, score, member)
  list[#list + 1] = score
  list[#list + 1] = member
end

local function arm(item, moment)
  push(moment > now and asleep or overdue, moment, item)
end

local function disarm(item, moment)
  awake[#awake + 1] = item
  moments[#moments + 1] = moment
end

local function write_shared()
  -- What comes due is asleep, due or held, one of these.
  if many('ZREM', wake, awake) < #awake then
    many('ZREM', due, awake)
    for at, item in ipairs(awake) do
      awake[at] = 'h' .. moments[at] .. item
    end
    many('ZREM', wake, awake)
  end
  if many('ZREM', ready, unready) < #unready then
    for at, place in ipairs(unready) do
      unready[at] = 'r' .. place
    end
    many('ZREM', wake, unready)
  end
  many('ZADD', wake, asleep)
  many('ZADD', due, overdue)
  many('ZADD', ready, made_ready)
  many('ZREM', holders, ends)
  many('ZADD', holders, starts)
  many('ZREM', lists, unlisted)
  many('ZADD', lists, listed)
  note_anew()
end

-- --- one commit ---

-- Its run, and that one's keys.
local run, rows, index, tenant_feed
-- Its arguments stand behind this one, its bodies behind that one.
local before, bodies
-- The fields that it looks at, as they are; what it writes, and takes away.
local kept, sets, gone
-- How many executions the run has had, and the numbers of the open ones, each between spaces.
local count, open

local function set(field, value)
  sets[#sets + 1] = field
  sets[#sets + 1] = value
end

local function start_lease(name, token, lease_us, limit_us, who)
  local limit, moment = 0, after(now, lease_us)
  if limit_us > 0 then
    limit = after(now, limit_us)
    moment = math.min(moment, limit)
  end
  limit = fixed(limit)
  arm(lease_item(name, limit, token), moment)
  push(starts, 0, holder(who, name, token))
  return token, lease_row(fixed(moment), limit, '-', who)
end

local function make_ready(name, lane, delay, number, stamped)
  local moment = after(now, delay)
  local place = lane .. fixed(moment) .. stamped .. number .. 'r' .. name
  if moment > now then
    push(asleep, moment, 'r' .. place)
  else
    push(made_ready, 0, place)
  end
  return place
end

-- A lease goes on with an execution's next row; it expires only while the execution is leased.
local function carry_lease(name, token, lease, state)
  local moment, limit = lease_parts(lease)
  local item = lease_item(name, limit, token)
  disarm(item, moment)
  if state == 'L' then
    arm(item, tonumber(moment))
  end
end

local function end_lease(name, token, lease, read)
  local moment, limit, sign, who = lease_parts(lease)
  disarm(lease_item(name, limit, token), moment)
  ends[#ends + 1] = holder(who, name, token)
  if sign ~= '-' then
    local id = string.sub(ARGV[before + read], 3)
    gone[#gone + 1] = 'lp:' .. id
    gone[#gone + 1] = 'ls:' .. id
    if sign == RECORDED then
      gone[#gone + 1] = 'lr:' .. id
    end
  end
end

-- The number of a new execution, linked with the last one before it of its task.
local function number_of(read, chain)
  count = count + 1
  local number, last = count .. '', '0'
  if chain > 0 then
    last = kept[chain] or last
    kept[chain] = number
    set(ARGV[before + chain], number)
  end
  set('x:' .. number, last .. ' ' .. string.sub(ARGV[before + read], 3))
  return number
end

local OPEN = { R = true, L = true, U = true }

-- `state` '': only its lease is another one. `forgets`: the number below which what its worker records is late.
local function put_execution(stamped, read, escaped, state, body, chain, place, lease, forgets)
  local name, row = run .. ':' .. escaped, kept[read]
  local was, number, token, has, from = '', nil, '', '', nil
  if row then
    was, number, token, has, from = row_parts(row)
  end
  if state == '' then
    if was ~= 'L' then
      return
    end
    state, body = was, string.sub(row, from)
  else
    body = ARGV[bodies + body]
  end
  if was == 'R' then
    unready[#unready + 1] = has
    has = ''
  elseif token ~= '' and not lease and (state == 'L' or state == 'U') then
    carry_lease(name, token, has, state)
  elseif token ~= '' then
    end_lease(name, token, has, read)
    token, has = '', ''
  end
  number = number or number_of(read, chain)
  if OPEN[state] and not OPEN[was] then
    open = open .. number .. ' '
  elseif OPEN[was] and not OPEN[state] then
    local at, to = string.find(open, ' ' .. number .. ' ', 1, true)
    open = string.sub(open, 1, at) .. string.sub(open, to + 1)
  end
  if forgets > 0 then
    local field = 'lf:' .. string.sub(ARGV[before + read], 3)
    if state == 'L' then
      set(field, text(forgets))
    else
      gone[#gone + 1] = field
    end
  end
  if state == 'R' then
    has = make_ready(name, place[1], place[2], place[3], stamped)
  elseif lease then
    token, has = start_lease(name, unpack(lease))
  end
  set(ARGV[before + read], state .. number .. '\0' .. token .. '\0' .. has .. '\0' .. body)
end

local function put_timer(read, escaped, delay, members, dropped)
  local item, field = 't' .. run .. ':' .. escaped, ARGV[before + read]
  if kept[read] then
    disarm(item, kept[read])
  end
  if delay < 0 then
    gone[#gone + 1] = field
    dropped[#dropped + 1] = field
    return
  end
  local moment = after(now, delay)
  arm(item, moment)
  set(field, fixed(moment))
  push(members, 0, field)
end

local function put_question(read, is_open, body, number, members, dropped, stamped)
  local field, row = ARGV[before + read], kept[read]
  local place = row and string.sub(row, 1, 32) or number .. stamped
  local id, order = string.sub(field, 3), string.sub(place, 1, 16)
  local asked = asked_place(run, place, id)
  push(members, 0, 'i' .. order .. id)
  if is_open then
    push(members, 0, 'a' .. order .. id)
    push(listed, 0, asked)
  else
    dropped[#dropped + 1] = 'a' .. order .. id
    unlisted[#unlisted + 1] = asked
  end
  set(field, place .. ARGV[bodies + body])
end

local function put_birth(stamped, prefix, suffix, forks)
  set('birth', prefix .. stamped .. suffix)
  push(listed, 0, prefix .. stamped .. suffix)
  if forks then
    set('fork', forks .. stamped .. suffix)
    push(listed, 0, forks .. stamped .. suffix)
  end
end

-- Written once: the first result of an execution is its result.
local function put_outcome(read, body, texts)
  if not kept[read] then
    local field = ARGV[before + read]
    set(field, ARGV[bodies + body])
    if texts > 0 then
      set('v:' .. string.sub(field, 3), ARGV[bodies + texts])
    end
  end
end

local function put_journal(version, forgotten, writes, body)
  forget_entries(rows, forgotten)
  keep_entries(rows, look_up(rows, writes, {}), writes, bodies + body - 1, version, now, '', sets)
end

-- What few commits have; what comes into the run's orders, and what goes, is noted.
local function put_rest(rest, members, dropped, stamped, version)
  for _, member in ipairs(rest.members) do
    push(members, 0, member)
  end
  for _, timer in ipairs(rest.timers) do
    put_timer(timer[1], timer[2], timer[3], members, dropped)
  end
  for _, asked in ipairs(rest.questions) do
    put_question(asked[1], asked[2], asked[3], asked[4], members, dropped, stamped)
  end
  if rest.birth then
    put_birth(stamped, unpack(rest.birth))
  end
  if rest.journal then
    put_journal(version, unpack(rest.journal))
  end
end

-- Tasks that no plan has stand behind those of their revision's.
local function put_strays(tasks)
  for at = 1, #tasks, 2 do
    if not kept[tasks[at]] then
      local revision = tasks[at + 1]
      local field = 'po:' .. text(revision)
      local order = redis.call('HGET', rows, field)
      local ids = order and cmsgpack.unpack(order) or {}
      ids[#ids + 1] = string.sub(ARGV[before + tasks[at]], 3)
      redis.call('HSET', rows, field, cmsgpack.pack(ids))
      redis.call('ZADD', index, 0, 'p' .. fixed(revision))
    end
  end
end

local function drop_requests(most)
  if most == 0 then
    return
  end
  local over = redis.call('ZLEXCOUNT', index, '[q', '[q\255') - most
  if over > 0 then
    for _, member in ipairs(redis.call('ZRANGEBYLEX', index, '[q', '[q\255', 'LIMIT', 0, over)) do
      redis.call('ZREM', index, member)
      redis.call('HDEL', rows, 'q:' .. text(tonumber(string.sub(member, 2))))
    end
  end
end

local function move_end(was, line)
  local pipeline = string.match(redis.call('HGET', rows, 'birth'), '^[^\1]*\1[^\1]*\1([^\1]*)')
  for _, place in ipairs(ended_places(run, was, pipeline)) do
    unlisted[#unlisted + 1] = place
  end
  for _, place in ipairs(ended_places(run, line, pipeline)) do
    push(listed, 0, place)
  end
end

-- --- its verdict ---

local function made_by(version)
  local record = redis.call('HGET', rows, 'c:' .. text(version))
  local size, at = string.match(record, '^%d+ %d+ %d+ (%d+) %d+ ()')
  return string.sub(record, at, at + tonumber(size) - 1)
end

-- Whether so many entries were recorded under a lease; some are a number and the field that has it.
local function knows_all(row, token, recorded)
  local at = sign_at(row, token)
  if string.sub(row, at, at) ~= RECORDED then
    return recorded == 0
  end
  return recorded ~= 0 and string.match(kept[recorded[2]] or '', '^%d+') == text(recorded[1])
end

-- Whether it creates a fork whose parent isn't there.
local function is_orphan(rest)
  local parent = rest and rest.birth and rest.birth[4]
  return parent and redis.call('HEXISTS', book, parent) == 0
end

local function refusal(stored, stored_id, version, id, follows, fences, reads, rest)
  if version ~= stored + 1
    or (stored == 0 and (is_orphan(rest) or redis.call('ZSCORE', tombstones, run))) then
    local is_again = (version == stored and id == stored_id)
      or (version >= 1 and version < stored and id == made_by(version))
    return is_again and 'C' or 'X'
  end
  -- What it was decided on may be lost, and something else be there by now.
  if stored > 0 and follows ~= '' and follows ~= stored_id then
    return 'X'
  end
  kept = stored == 0 and {} or pick(rows, ARGV, before + 1, before + reads)
  for at = 1, #fences, 3 do
    local row = kept[fences[at]]
    if not row or not has_token(row, fences[at + 1]) then
      return 'L'
    end
  end
  for at = 1, #fences, 3 do
    if fences[at + 2] ~= -1 and not knows_all(kept[fences[at]], fences[at + 1], fences[at + 2]) then
      return 'X'
    end
  end
end

local function apply(version, behind, first, executions, outcomes, tasks, rest)
  local stamp = math.max(now + behind, time.stamp + 1, floor + 1 + behind)
  time.stamp = stamp
  local stamped = fixed(stamp)
  sets, gone = {}, {}
  for at = first, bodies do
    sets[at - first + 1] = ARGV[at]
  end
  if #executions > 0 then
    count, open = string.match(kept[1] or '0 ', '^(%d+)( .*)$')
    count = tonumber(count)
    for _, one in ipairs(executions) do
      put_execution(stamped, unpack(one))
    end
    set('x', count .. open)
  end
  for at = 1, #outcomes, 3 do
    put_outcome(outcomes[at], outcomes[at + 1], outcomes[at + 2])
  end
  local members, dropped = {}, {}
  if rest then
    put_rest(rest, members, dropped, stamped, version)
  end
  set('c:' .. version, stamped .. ' ' .. ARGV[bodies + 2])
  many('HDEL', rows, gone)
  many('HSET', rows, sets)
  put_strays(tasks)
  if rest then
    many('ZREM', index, dropped)
    many('ZADD', index, members)
    drop_requests(rest.requests_max)
  end
  local place = stamped .. '-0'
  redis.call('XADD', feed, place, run, version)
  redis.call('XADD', tenant_feed, place, run, version)
end

-- --- all of them ---

local verdicts, touched, has_written = {}, {}, false
note_anew()
before = 1 + runs
for number, commit in ipairs(commits) do
  local of, behind, reads, plain, size, version, id, follows, ends, executions, fences,
    outcomes, tasks, rest = unpack(commit)
  run = string.sub(ARGV[1 + of], 2)
  rows, index, tenant_feed = unpack(KEYS, 6 + 3 * of, 8 + 3 * of)
  bodies = before + reads + plain
  local was = lines[3 + of] or '0 0 - - - '
  local stored, ended, stored_id = string.match(was, '^(%d+) %d+ %S+ %S+ (%S+) (.*)$')
  local verdict = refusal(tonumber(stored), stored_id, version, id, follows, fences, reads, rest)
  if not verdict then
    if touched[of] then
      -- What it changes may be what one before it noted.
      write_shared()
    end
    apply(version, behind, before + reads + 1, executions, outcomes, tasks, rest)
    local line = ARGV[bodies + 1]
    if ends or ended ~= '-' then
      move_end(was, line)
    end
    lines[3 + of], touched[of] = line, true
    told_lines[#told_lines + 1] = ARGV[1 + of]
    told_lines[#told_lines + 1] = line
    verdict, has_written = 'C', true
  end
  verdicts[number] = verdict
  before = bodies + size
end
if has_written then
  write_shared()
end
-- This always writes, because WAIT waits only for what its own connection wrote.
many('HSET', book, told(time, told_lines))
local heard = redis.pcall('PUBSUB', 'NUMSUB', channel)
return table.concat(verdicts) .. ' ' .. text(now) .. ' ' .. text(time.stamp) .. ' ' .. (heard[2] or -1)
