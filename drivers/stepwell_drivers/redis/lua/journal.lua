--!lua flags=no-writes
-- Journal entries of a run, in the order of writing: the next number, 1 if there may be more (else
-- 0), and entries with their values' bytes.
--
-- A single journal is read from its first entry to its last, through what other journals wrote
-- between them; one call reads at most `looks_max` entries.

local key = KEYS[1]
local from, limit, room, looks_max = unpack(ARGV, 1, 4)
local journal, generation, execution, version, has_values = unpack(ARGV, 5, 9)
local AT_ONCE = 200
from, limit, room, looks_max = tonumber(from), tonumber(limit), tonumber(room), tonumber(looks_max)
generation, version, has_values = tonumber(generation), tonumber(version), has_values == '1'

local head = redis.call('HMGET', key, 'j', 'jf:' .. journal)
local ending = tonumber(head[1] or 0)
local last = ending
if journal ~= '' then
  local first, latest = string.match(head[2] or '1 0', '^(%d+) (%d+)$')
  from, last = math.max(from, tonumber(first)), tonumber(latest)
end

-- The size of an entry if it matches, else nil.
local function matching(row)
  local of_generation, at, size, words, once, writer, name =
    string.match(row, '^(%d+) (%d+) %d+ %d+ (%d+) (%d+) (%S) ([^%z]*)%z([^%z]*)')
  of_generation = tonumber(of_generation)
  local is_seen = generation == 0 or of_generation == generation
    or (once == 'o' and of_generation < generation)
  if is_seen and (journal == '' or name == journal) and (execution == '' or writer == execution)
    and (version == 0 or tonumber(at) <= version) then
    return tonumber(words) + (has_values and tonumber(size) or 0)
  end
end

-- Reads rows in chunks.
local chunk, base = {}, 0
local function row_of(number)
  if chunk[number - base] == nil then
    local fields = {}
    for at = number, math.min(number + AT_ONCE - 1, last) do
      fields[#fields + 1] = 'j:' .. text(at)
    end
    chunk, base = pick(key, fields), number - 1
  end
  return chunk[number - base]
end

local found, values = {}, {}
local number, stop = from, math.min(last, from + looks_max - 1)
while number <= stop do
  local row = row_of(number)
  local size = row and matching(row)
  if size then
    room = room - size
    if #found > 0 and (#found >= limit or room < 0) then
      break
    end
    found[#found + 1], values[#values + 1] = row, 'jv:' .. text(number)
  end
  number = number + 1
end
local more = number <= last
values = has_values and pick(key, values) or {}
return { text(more and number or math.max(from, ending + 1)), more and 1 or 0, found, values }
