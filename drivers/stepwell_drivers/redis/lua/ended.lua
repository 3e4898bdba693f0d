--!lua flags=allow-oom
-- Runs without forks that ended long enough ago: of each given list the earliest ended, each with
-- its line.

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
  local from, to, names, places = '[' .. ARGV[at], '[' .. ARGV[at] .. fixed(till) .. '\1\255', {}, nil
  repeat
    places = redis.call('ZRANGEBYLEX', lists, from, to, 'LIMIT', 0, limit)
    for _, place in ipairs(places) do
      local run = string.sub(place, #ARGV[at] + 18)
      if #names < limit and not has_forks(lists, run) then
        names[#names + 1] = 'v' .. run
      end
      from = '(' .. place
    end
  until #names == limit or #places < limit
  for number, line in ipairs(pick(book, names)) do
    found[#found + 1] = string.sub(names[number], 2)
    found[#found + 1] = line
  end
end
return found
