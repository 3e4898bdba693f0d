--!lua flags=
-- Journal entries that workers write under their leases: the time, and for each recording false if
-- the token isn't the lease's, nothing if calls were dropped since it was sent, else a letter for
-- each entry, the ends of sleeps, and the lease's sums.

local book = KEYS[1]
local store, runs, recordings = unpack(cmsgpack.unpack(ARGV[1]))
local time, lines = look(book, unpack(ARGV, 2, 1 + runs))
if time.store ~= store then
  return emptied()
end
local HALF = 4294967296
-- The rows of a recording's run.
local rows

-- Adds new entries to a lease's sums: entries, bytes, messages, and usage once there was any.
-- Numbers of usage have two halves each, high and low.
local function sums_with(sums, new)
  local entries, bytes, messages, spent = string.match(sums, '^(%d+) (%d+) (%d+)(.*)$')
  local usage
  if spent ~= '' then
    usage = {}
    for half in string.gmatch(spent, '%d+') do
      usage[#usage + 1] = tonumber(half)
    end
  end
  for _, write in ipairs(new) do
    entries, bytes, messages = entries + 1, bytes + write[6] + write[7], messages + write[8]
    local more = write[9]
    if more then
      usage = usage or { 0, 0, 0, 0, 0, 0 }
      for at = 2, 6, 2 do
        local low = usage[at] + more[at]
        usage[at - 1] = usage[at - 1] + more[at - 1] + math.floor(low / HALF)
        usage[at] = low % HALF
      end
    end
  end
  return entries .. ' ' .. bytes .. ' ' .. messages .. (usage and ' ' .. table.concat(usage, ' ') or '')
end

local function record(line, before, id, token, forgets, writes)
  local field, of_lease, forgotten = 'e:' .. id, 'lr:' .. id, 'lf:' .. id
  local found = look_up(rows, writes, { field, of_lease, forgotten })
  local row = found[field]
  if not row or string.sub(row, 1, 1) ~= 'L' or not has_token(row, token) then
    return false
  end
  if forgets < tonumber(found[forgotten] or 0) then
    return ''
  end
  local sets, sign = {}, sign_at(row, token)
  local letters, ends, new = keep_entries(rows, found, writes, before, string.match(line, '^%d+'), time.now, id, sets)
  local is_first = string.sub(row, sign, sign) ~= RECORDED
  local sums = is_first and '0 0 0' or found[of_lease]
  if #new > 0 then
    sums = sums_with(sums, new)
    sets[#sets + 1], sets[#sets + 2] = of_lease, sums
    if is_first then
      local marked = string.sub(row, 1, sign - 1) .. RECORDED .. string.sub(row, sign + 1)
      sets[#sets + 1], sets[#sets + 2] = field, marked
    end
    many('HSET', rows, sets)
  end
  return table.concat(letters) .. ' ' .. table.concat(ends, ',') .. ' ' .. sums
end

local answers, before = { text(time.now) }, 1 + runs
for at, one in ipairs(recordings) do
  local of, id, token, forgets, writes = unpack(one)
  rows = unpack(KEYS, 1 + of, 1 + of)
  local line = lines[3 + of]
  answers[1 + at] = line and record(line, before, id, token, forgets, writes) or false
  before = before + 2 * #writes
end
-- WAIT covers only what its own connection wrote, so this always writes.
keep(time)
return answers
