--!lua flags=allow-oom
-- Whether a family has died out: 0 while anybody of it is there; 2 and those of other partitions who
-- have to be looked for first (all but those that the caller names: they are gone); 1 and all who ever
-- were to join. From then on none of them can be born: who is not there has a tombstone.
-- (A run under such an id that is of another family was there before the fork that was to have it.)

local book, tombstones, family = unpack(KEYS)
local root, here, tombstone_us = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call('HEXISTS', book, 'v' .. root) == 1 then
  return { 0, {} }
end
local name, gone = string.match(root, ':(.*)$'), {}
for at = 4, #ARGV do
  gone[ARGV[at]] = true
end
local found = redis.call('HGETALL', family)
local members, others, absent = {}, {}, {}
for at = 1, #found, 2 do
  members[#members + 1] = found[at]
  if found[at + 1] ~= here then
    if not gone[found[at]] then
      others[#others + 1] = found[at]
    end
  elseif redis.call('HGET', book, 'f' .. found[at]) == name then
    return { 0, {} }
  else
    absent[#absent + 1] = found[at]
  end
end
if #others > 0 then
  return { 2, others }
end
local time = look(book)
for _, run in ipairs(absent) do
  redis.call('ZADD', tombstones, 'GT', time.now + tombstone_us, run)
end
keep(time)
return { 1, members }
