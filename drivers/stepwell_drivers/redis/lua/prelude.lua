-- What all scripts stand on: numbers as text, the partition's time, what sleeps and what wakes.

local LATEST = 9000000000000000

local function text(number)
  return string.format('%.0f', number)
end

-- Of one width, so that the order of texts is that of numbers.
local function fixed(number)
  return string.format('%016.0f', number)
end

-- A partition's book is one hash, so that a commit writes it in one go: the time ('#last' that was told,
-- '#offset' to the wall clock, '#stamp' of the last commit), the store's id ('#store'), 'v' and a run: its version, status,
-- what it waits for and, if it has ended, when; 'r', 'l' or 't' and a run and a name: what is ready,
-- leased or timed; 'f' and a fork: its family.

-- The partition's time never goes back: a wall clock that was set back is carried on from where it
-- was, and so is that of another machine which took this one's place.
local function look(book, ...)
  local kept = redis.call('HMGET', book, '#offset', '#last', '#stamp', '#store', ...)
  local offset, last = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
  local now = wall_us(book) + offset
  local behind = now < last
  if behind then
    offset = offset + last - now
    now = last
  end
  return { book = book, now = now, last = last, offset = offset, stamp = tonumber(kept[3] or 0),
    behind = behind, store = kept[4], also = kept[5] }
end

-- The answer where a partition has not the id that its store had when it was created.
local function emptied()
  return redis.error_reply('EMPTIED this partition is not of the store that was opened')
end

local function keep(time)
  redis.call('HSET', time.book, '#last', text(time.now), '#offset', text(time.offset),
    '#stamp', text(time.stamp))
end

-- Who only looks writes the time all the same when it is needed from here on, and now and then: what
-- passed since it was last written is what a wall clock that is set back takes away.
local function keep_sometimes(time)
  if time.behind or time.now - time.last >= 10000000 then
    keep(time)
  end
end

-- No moment lies beyond what is exact and sixteen digits wide.
local function after(now, delay)
  return math.min(now + delay, LATEST)
end

-- A command with many arguments, some at a time, because Lua's stack is short; its counts together.
local function many(command, key, arguments)
  local sum = 0
  for first = 1, #arguments, 2000 do
    local last = math.min(first + 1999, #arguments)
    sum = sum + redis.call(command, key, unpack(arguments, first, last))
  end
  return sum
end

local function pick(key, fields)
  local found = {}
  for first = 1, #fields, 2000 do
    local last = math.min(first + 1999, #fields)
    local values = redis.call('HMGET', key, unpack(fields, first, last))
    for at = 1, last - first + 1 do
      found[first + at - 1] = values[at]
    end
  end
  return found
end

-- What is listed over all runs is one sorted set by name. A letter tells the list: births none, open
-- input requests 3, ended runs 4.

-- Where an ended run stands (of its tenant or of any, of its pipeline or of any), by its line in the
-- book; nowhere, if the line tells no end.
local function ended_places(run, line, pipeline)
  local status, moment = string.match(line, '^%d+ (%S+) %S+ (%d+)$')
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

-- Where an open input request stands, by what stands before its row.
local function asked_place(run, before, id)
  local tenant, name = string.match(run, '^([^:]*):(.*)$')
  return '\3' .. tenant .. '\1' .. string.sub(before, 17, 32) .. string.sub(before, 1, 16) .. '\1' .. name
    .. '\1' .. id
end

-- An execution's row: the order of its birth, the letter of its state, its lease with its length, itself.
local function row_parts(row)
  local size = tonumber(string.sub(row, 18, 23))
  return string.sub(row, 1, 16), string.sub(row, 17, 17), string.sub(row, 24, 23 + size)
end
