--!lua flags=
-- Note a fork that is about to be born in its family's book: whether anybody of the family is there (or
-- it is known already), and those of other partitions who may be, with these. Before a birth, so that who
-- deletes the last of the family looks for this one, too; a fork that isn't born then does no harm.

local book, family = unpack(KEYS)
local root, run, number, here, is_known = unpack(ARGV)
local alive = is_known == '1' or redis.call('HEXISTS', book, 'v' .. root) == 1
local name, others = string.match(root, ':(.*)$'), {}
if not alive then
  local found = redis.call('HGETALL', family)
  for at = 1, #found, 2 do
    if found[at] ~= run and found[at + 1] ~= here then
      others[#others + 1] = found[at]
    elseif found[at] ~= run and redis.call('HGET', book, 'f' .. found[at]) == name then
      alive = true
    end
  end
end
if alive or #others > 0 then
  redis.call('HSET', family, run, number)
end
return { alive and 1 or 0, others }
