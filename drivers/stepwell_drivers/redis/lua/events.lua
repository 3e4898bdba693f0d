--!lua flags=no-writes
-- Return whole commits' events after a number, at most `limit` unless a single commit has more: the
-- run's last event, its status, and the commits' records.

local book, rows = unpack(KEYS)
local run, after_number, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local line = redis.call('HGET', book, 'v' .. run)
if not line then
  return false
end
local version, latest, status = string.match(line, '^(%d+) (%d+) (%S+)')
local last = tonumber(version)

local function record_of(number)
  return redis.call('HGET', rows, 'c:' .. text(number))
end

-- The number of the run's last event as of a commit, and how many the commit has.
local function counts_of(record)
  local number, count = string.match(record, '^%d+ (%d+) (%d+)')
  return tonumber(number), tonumber(count)
end

-- The first commit with an event after the number. Searched from the end, because watchers ask for
-- the last events.
local function first_after()
  local low, high, step = 1, last, 1
  while low < high do
    local middle = step and math.max(high - step, low) or math.floor((low + high) / 2)
    if counts_of(record_of(middle)) > after_number then
      high, step = middle, step and 2 * step
    else
      low, step = middle + 1, nil
    end
  end
  return high
end

local records, sum = {}, 0
if after_number < tonumber(latest) then
  for number = first_after(), last do
    local record = record_of(number)
    local reaches, count = counts_of(record)
    sum = sum + math.min(count, reaches - after_number)
    if sum > limit and #records > 0 then
      break
    end
    records[#records + 1] = record
  end
end
return { latest, status, records }
