-- Shared by all scripts: numbers as text, the partition's time, lists, and leases.

local LATEST = 9000000000000000

local function text(number)
  return string.format('%.0f', number)
end

-- Of fixed width, so that the order as text is the order of the numbers.
local function fixed(number)
  return string.format('%016.0f', number)
end

-- A partition's book is one hash, so that a commit writes it with one command: '#time', the time
-- last written and the stamp of the last commit; '#offset' to the wall clock; '#store', the store's
-- id; 'v' and a run: its line. A run's line has its version, last event, status, what it waits for,
-- its end ('-': it hasn't ended), and the id of the commit that made the version.

-- Reads the partition's time, which never goes back: if the wall clock was set back, or another
-- machine with an earlier clock took over, the time continues from where it was. Also returns the
-- values of further fields of the book, from the fourth on.
local function look(book, ...)
  local kept = redis.call('HMGET', book, '#time', '#offset', '#store', ...)
  local last, stamp = string.match(kept[1] or '0 0', '^(%d+) (%d+)$')
  local offset = tonumber(kept[2] or 0)
  last = tonumber(last)
  local now = wall_us(book) + offset
  local behind = now < last
  if behind then
    offset = offset + last - now
    now = last
  end
  return { book = book, now = now, last = last, offset = offset, stamp = tonumber(stamp),
    behind = behind, store = kept[3] }, kept
end

-- The answer of a partition that doesn't have the id of its store.
local function emptied()
  return redis.error_reply('EMPTIED this partition is not of the store that was opened')
end

-- Appends the fields of the time, with their values, to `fields`.
local function told(time, fields)
  fields[#fields + 1] = '#time'
  fields[#fields + 1] = text(time.now) .. ' ' .. text(time.stamp)
  if time.behind then
    fields[#fields + 1] = '#offset'
    fields[#fields + 1] = text(time.offset)
  end
  return fields
end

local function keep(time)
  redis.call('HSET', time.book, unpack(told(time, {})))
end

-- A script that only reads writes the time if its clock went back, and otherwise every ten seconds:
-- setting the wall clock back loses the time since the last write.
local function keep_sometimes(time)
  if time.behind or time.now - time.last >= 10000000 then
    keep(time)
  end
end

-- Moments stay below what is exact and sixteen digits wide.
local function after(now, delay)
  return math.min(now + delay, LATEST)
end

-- Calls a command with many arguments in several calls, because Lua's stack is short; returns the
-- sum of their counts.
local function many(command, key, arguments)
  local count = #arguments
  if count == 0 then
    return 0
  elseif count <= 2000 then
    return redis.call(command, key, unpack(arguments))
  end
  local sum = 0
  for first = 1, count, 2000 do
    sum = sum + redis.call(command, key, unpack(arguments, first, math.min(first + 1999, count)))
  end
  return sum
end

-- The values of any number of fields, or of a range of them.
local function pick(key, fields, first, last)
  first, last = first or 1, last or #fields
  if last < first then
    return {}
  elseif last - first < 2000 then
    return redis.call('HMGET', key, unpack(fields, first, last))
  end
  local found = {}
  for from = first, last, 2000 do
    for _, value in ipairs(redis.call('HMGET', key, unpack(fields, from, math.min(from + 1999, last)))) do
      found[#found + 1] = value
    end
  end
  return found
end

-- The lists over all runs share one sorted set by name. The first character tells the list: runs by
-- creation have none, open questions have 3, ended runs 4.

-- The list entries of an ended run (under its tenant or any, and its pipeline or any), by its line
-- in the book; none if the line has no end.
local function ended_places(run, line, pipeline)
  local status, moment = string.match(line, '^%d+ %d+ (%S+) %S+ (%d+) ')
  local places = {}
  if moment then
    for _, tenant in ipairs({ '', string.match(run, '^[^:]*') }) do
      for _, of in ipairs({ '', pipeline }) do
        places[#places + 1] = '\4' .. tenant .. '\1' .. of .. '\1' .. status .. '\1' .. moment .. '\1' .. run
      end
    end
  end
  return places
end

-- Whether a run has forks. They are listed by their parent, in its partition.
local function has_forks(lists, run)
  local first = '[' .. string.gsub(run, ':', '\2', 1) .. '\1'
  return #redis.call('ZRANGEBYLEX', lists, first, first .. '\255', 'LIMIT', 0, 1) > 0
end

-- The list entry of an open question; `before` is the prefix of its row.
local function asked_place(run, before, id)
  local tenant, name = string.match(run, '^([^:]*):(.*)$')
  return '\3' .. tenant .. '\1' .. string.sub(before, 17, 32) .. string.sub(before, 1, 16) .. '\1' .. name
    .. '\1' .. id
end

-- Items that sleep or are due are named by a letter (l a lease, t a timer), the run and a name; a
-- lease also by its limit and token. A sleeping ready step is r and its place. A held item is h,
-- its moment and the item.
local function lease_item(name, limit, token)
  return 'l' .. name .. '\1' .. limit .. token
end

-- The entry of a lease among those of its worker.
local function holder(who, name, token)
  return who .. '\1' .. name .. '\1' .. token
end

-- Splits an execution's row: the letter of its state (R ready, L leased, U unknown, C any other)
-- and its number in the run; its lease's token, if it has one; the lease, or its place if it is
-- ready; the execution itself. Returns these parts, and where the last begins.
local function row_parts(row)
  local first = string.find(row, '\0', 1, true)
  local second = string.find(row, '\0', first + 1, true)
  local third = string.find(row, '\0', second + 1, true)
  return string.sub(row, 1, 1), string.sub(row, 2, first - 1), string.sub(row, first + 1, second - 1),
    string.sub(row, second + 1, third - 1), third + 1
end

local function has_token(row, token)
  local first = string.find(row, '\0', 1, true)
  return token ~= '' and string.find(row, '\0' .. token .. '\0', first, true) == first
end

-- A lease: its deadline, its limit, a sign, and its holder. The sign is '-' until the holder sends
-- anything, '+' once it has reported, and RECORDED once it has recorded.
local RECORDED = '*'

-- The position of a lease's sign in its execution's row.
local function sign_at(row, token)
  return string.find(row, '\0', 1, true) + #token + 34
end

local function lease_parts(lease)
  return string.sub(lease, 1, 16), string.sub(lease, 17, 32), string.sub(lease, 33, 33), string.sub(lease, 34)
end

local function lease_row(deadline, limit, sign, who)
  return deadline .. limit .. sign .. who
end
