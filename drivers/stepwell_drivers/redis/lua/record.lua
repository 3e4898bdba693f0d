--!lua flags=
-- Journal entries that workers write under their leases: the time, and for each recording false where the token is
-- not the lease's, else a letter for each entry, the ends of sleeps, and the lease's sums.

local book = KEYS[1]
local store, runs, recordings = unpack(cmsgpack.unpack(ARGV[1]))
local time, lines = look(book, unpack(ARGV, 2, 1 + runs))
if time.store ~= store then
  return emptied()
end
local HALF = 4294967296
-- The run of a recording, by its rows.
local rows

-- Adds what new entries come to: entries, bytes, messages, and numbers of usage in two halves each, high and low.
local function add_sums(sums, new)
  for _, write in ipairs(new) do
    local _, _, _, _, _, size, messages, usage = unpack(write)
    sums[1], sums[2], sums[3] = sums[1] + 1, sums[2] + size, sums[3] + messages
    for at = 2, usage and #usage or 0, 2 do
      local low = sums[3 + at] + usage[at]
      sums[2 + at] = sums[2 + at] + usage[at - 1] + math.floor(low / HALF)
      sums[3 + at] = low % HALF
    end
  end
end

local function record(line, before, id, token, writes)
  local field, of_lease = 'e:' .. id, 'lr:' .. id
  local row, summed = unpack(redis.call('HMGET', rows, field, of_lease))
  if not row or string.sub(row, 1, 1) ~= 'L' or not has_token(row, token) then
    return false
  end
  local sets, sums, sign = {}, { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, sign_at(row, token)
  local letters, ends, new = keep_entries(rows, writes, before, string.match(line, '^%d+'), time.now, id, sets)
  local is_first = string.sub(row, sign, sign) ~= RECORDED
  if not is_first then
    local at = 0
    for number in string.gmatch(summed, '%d+') do
      at = at + 1
      sums[at] = tonumber(number)
    end
  end
  add_sums(sums, new)
  for at, number in ipairs(sums) do
    sums[at] = text(number)
  end
  summed = table.concat(sums, ' ')
  if #new > 0 then
    sets[#sets + 1], sets[#sets + 2] = of_lease, summed
    if is_first then
      local marked = string.sub(row, 1, sign - 1) .. RECORDED .. string.sub(row, sign + 1)
      sets[#sets + 1], sets[#sets + 2] = field, marked
    end
    many('HSET', rows, sets)
  end
  return table.concat(letters) .. ' ' .. table.concat(ends, ',') .. ' ' .. summed
end

local answers, before = { text(time.now) }, 1 + runs
for at, one in ipairs(recordings) do
  local of, id, token, writes = unpack(one)
  rows = unpack(KEYS, 1 + of, 1 + of)
  local line = lines[3 + of]
  answers[1 + at] = line and record(line, before, id, token, writes) or false
  before = before + 2 * #writes
end
-- Who waits for replicas waits for what this connection wrote: so it always writes.
keep(time)
return answers
