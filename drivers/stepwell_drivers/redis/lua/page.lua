--!lua flags=no-writes
-- A page of a run's rows in one of their orders: each row with its place.

local rows, index = unpack(KEYS)
local from, to, count, skip, prefix = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local members = redis.call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, count)
local fields = {}
for at, member in ipairs(members) do
  fields[at] = prefix .. string.sub(member, skip + 1)
end
return { members, pick(rows, fields) }
