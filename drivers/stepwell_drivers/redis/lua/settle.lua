--!lua flags=
-- The id of the store that this partition is of; written here first if the store is only being created.

local book = KEYS[1]
local store, is_new = ARGV[1], ARGV[2] == '1'
if is_new then
  redis.call('HSETNX', book, '#store', store)
end
return redis.call('HGET', book, '#store') or ''
