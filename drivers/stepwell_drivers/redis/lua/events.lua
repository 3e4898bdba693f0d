--!lua flags=no-writes
-- Whole commits' events after a number, at most `limit` of them but for a commit that stands alone.

local book, rows, events = unpack(KEYS)
local run, after_number, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local stored = redis.call('HGET', book, 'v' .. run)
if not stored then
  return false
end
local found = redis.call('XRANGE', events, '(' .. after_number .. '-0', '+', 'COUNT', limit + 1)
local keep_count = #found
if keep_count > limit then
  local last = found[keep_count][2][2]
  while keep_count > 0 and found[keep_count][2][2] == last do
    keep_count = keep_count - 1
  end
  if keep_count == 0 then
    -- One commit, larger than the page: the rest of it.
    keep_count = #found
    local from = found[keep_count][1]
    while from do
      local more = redis.call('XRANGE', events, '(' .. from, '+', 'COUNT', 128)
      from = nil
      for _, entry in ipairs(more) do
        if entry[2][2] ~= last then
          from = nil
          break
        end
        keep_count = keep_count + 1
        found[keep_count] = entry
        from = entry[1]
      end
    end
  end
end
local bytes = {}
for at = 1, keep_count do
  bytes[at] = found[at][2][4]
end
return { redis.call('HGET', rows, 'ev') or '0', string.match(stored, '^%d+ (%S+)'), bytes }
