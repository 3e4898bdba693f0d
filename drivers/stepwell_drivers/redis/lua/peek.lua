--!lua flags=allow-oom
-- The items of this partition that may be claimed: the heads of each want's lanes, and due items.
-- Wakes what has slept long enough; holds nothing (`hold` does).

local book, wake, ready, due = unpack(KEYS)
local due_limit, wants = tonumber(ARGV[1]), cmsgpack.unpack(ARGV[2])
local time = look(book)
local now = time.now
local AT_ONCE = 1000

local over = redis.call('ZRANGEBYSCORE', wake, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
local woken = {}
for at = 1, #over, 2 do
  local item = over[at]
  local letter = string.sub(item, 1, 1)
  if letter == 'r' then
    redis.call('ZADD', ready, 0, string.sub(item, 2))
  elseif letter == 'h' then
    redis.call('ZADD', due, tonumber(string.sub(item, 2, 17)), string.sub(item, 18))
  else
    redis.call('ZADD', due, over[at + 1], item)
  end
  woken[#woken + 1] = item
end
if #woken > 0 then
  redis.call('ZREM', wake, unpack(woken))
  keep(time)
else
  keep_sometimes(time)
end

local runs, wanted = {}, {}

local function version_of(item)
  local run = 'v' .. string.match(item, '^.([^:]*:[^:]*)')
  if not wanted[run] then
    runs[#runs + 1] = run
    wanted[run] = #runs
  end
  return wanted[run]
end

local function lane(prefix, limit, found)
  local members = redis.call('ZRANGEBYLEX', ready, '[' .. prefix .. '\1', '[' .. prefix .. '\1\255',
    'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    found[#found + 1] = member
    found[#found + 1] = version_of(string.sub(string.match(member, '[^\1]*$'), 58))
  end
end

-- Compares as bytes, because the interpreter compares strings by locale.
local function not_after(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then
      return a < b
    end
  end
  return #one <= #other
end

local function does(patterns, kind, role, type)
  for _, one in ipairs(patterns) do
    if one[1] == kind and (one[2] == '*' or one[2] == type) and (one[3] == '*' or one[3] == role) then
      return true
    end
  end
  return false
end

local function fits(pin, exact, least)
  if pin == '' or pin == exact then
    return true
  end
  return least ~= '' and string.sub(pin, 1, 1) == string.sub(least, 1, 1) and not_after(pin, least)
end

-- Jumps from lane to lane of a queue: one lookup each, however many steps a lane has.
local function lanes(prefix, want, found)
  local from = '[' .. prefix .. '\1'
  while true do
    local member = redis.call('ZRANGEBYLEX', ready, from, '[' .. prefix .. '\1\255', 'LIMIT', 0, 1)[1]
    if not member then
      return
    end
    local kind, role, type, pin = string.match(string.sub(member, #prefix + 2),
      '^([^\1]*)\1([^\1]*)\1([^\1]*)\1([^\1]*)')
    local whole = table.concat({ prefix, kind, role, type, pin }, '\1')
    local typed = want[3][kind]
    if typed ~= nil and (not typed or does(want[4], kind, role, type)) and fits(pin, want[5], want[6]) then
      lane(whole, want[1], found)
    end
    from = '[' .. whole .. '\1\255'
  end
end

local steps = {}
for _, want in ipairs(wants) do
  local found = {}
  for _, prefix in ipairs(want[2]) do
    lanes(prefix, want, found)
  end
  steps[#steps + 1] = found
end

local overdue = {}
if due_limit > 0 then
  local found = redis.call('ZRANGE', due, 0, due_limit - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    overdue[#overdue + 1] = found[at]
    overdue[#overdue + 1] = fixed(tonumber(found[at + 1]))
    overdue[#overdue + 1] = version_of(found[at])
  end
end

local stored = pick(book, runs)
local numbers = {}
for at = 1, #runs do
  numbers[at] = stored[at] and string.match(stored[at], '^%d+') or '0'
end
local next = redis.call('ZRANGE', wake, 0, 0, 'WITHSCORES')[2]
return { text(now), next and text(tonumber(next)) or '', steps, overdue, numbers }
