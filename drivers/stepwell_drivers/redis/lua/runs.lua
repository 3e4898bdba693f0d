--!lua flags=no-writes
-- Births of one tenant (or of one run's forks), the newest first, of runs that may match: how far it
-- looked ('' to the end), and the births. Looks at so many at the most.

local book, lists = unpack(KEYS)
local prefix, before, count, looks_max = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local traits, statuses, blocked = ARGV[5], cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[7])
local tenant, id_prefix = ARGV[8], ARGV[9]
local AT_ONCE = 200
local wanted = {}
for trait in string.gmatch(traits, '([^\1]*)\1') do
  wanted[#wanted + 1] = trait
end

local function matches(birth, line)
  if string.sub(birth, #prefix + 17, #prefix + 16 + #id_prefix) ~= id_prefix then
    return false
  end
  local at = 0
  for trait in string.gmatch(string.sub(birth, #prefix + 17), '\1([^\1]*)') do
    at = at + 1
    if wanted[at] ~= '' and wanted[at] ~= trait then
      return false
    end
  end
  local status, kind = string.match(line, '^%d+ %d+ (%S+) (%S+)')
  return (not next(statuses) or statuses[status]) and (not next(blocked) or blocked[kind])
end

local found, looked, to = {}, 0, before
while #found < count and looked < looks_max do
  local members = redis.call('ZREVRANGEBYLEX', lists, to, '[' .. prefix, 'LIMIT', 0, AT_ONCE)
  if #members == 0 then
    return { '', found }
  end
  local names = {}
  for at, member in ipairs(members) do
    names[at] = 'v' .. tenant .. ':' .. string.match(member, '^[^\1]*', #prefix + 17)
  end
  local stored = pick(book, names)
  for at, member in ipairs(members) do
    looked = looked + 1
    to = '(' .. member
    if stored[at] and matches(member, stored[at]) then
      found[#found + 1] = member
      if #found == count then
        return { to, found }
      end
    end
  end
  if #members < AT_ONCE then
    return { '', found }
  end
end
return { to, found }
