--!lua flags=allow-oom
-- Runs that ended long enough ago: of each given list the earliest ended, each with its line.

local book, lists = unpack(KEYS)
local older_us, heard, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = look(book)
keep_sometimes(time)
local till = math.max(time.now, heard) - older_us
local found = {}
if till < 0 then
  return found
end
for at = 4, #ARGV do
  local names = redis.call('ZRANGEBYLEX', lists, '[' .. ARGV[at], '[' .. ARGV[at] .. fixed(till)
    .. '\1\255', 'LIMIT', 0, limit)
  for number, name in ipairs(names) do
    names[number] = 'v' .. string.sub(name, #ARGV[at] + 18)
  end
  for number, line in ipairs(pick(book, names)) do
    found[#found + 1] = string.sub(names[number], 2)
    found[#found + 1] = line
  end
end
return found
