--!lua flags=allow-oom
-- Take away what a deleted run left to its family, which has died out. If its deletion isn't finished, who
-- finishes that does it ('own'), and needs it until then.

local book, tombstones, trash, kept = unpack(KEYS)
local run, tombstone_us, own = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call('EXISTS', kept) == 0 or (own == '0' and redis.call('ZSCORE', trash, run)) then
  return 0
end
local time = look(book)
redis.call('UNLINK', kept)
redis.call('ZADD', tombstones, 'XX', time.now + tombstone_us, run)
keep(time)
return 1
