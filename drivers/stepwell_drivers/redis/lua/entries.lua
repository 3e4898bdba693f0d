-- Writes journal entries into rows of their run. 'j' is the number of the run's last entry; numbers
-- are never reused. 'j:' and a number: the stamps (generation, the run's version, moment, end of a
-- sleep, bytes of the value, bytes of messages and failure, 'o' for an AT_MOST_ONCE call or '-',
-- the execution ('' if a commit wrote the entry), the journal), and the entry without its value's
-- bytes. 'jv:' and the number: the value's bytes. 'jf:' and a journal: the numbers of its first and
-- its last entry. 'jn:', a generation and a name: that entry's number; 'jo:' and a name: the number
-- of an AT_MOST_ONCE call's entry, of any generation. A name is journal, key, mark and number, a
-- NUL between them.

local function name_fields(generation, name)
  return 'jn:' .. generation .. '\0' .. name, 'jo:' .. name
end

-- Reads what tells which of these entries exist, and some other fields; returns their values, by
-- field.
local function look_up(key, writes, fields)
  fields[#fields + 1] = 'j'
  for _, write in ipairs(writes) do
    local count = #fields
    fields[count + 1] = 'jf:' .. write[1]
    fields[count + 2], fields[count + 3] = name_fields(write[2], write[3])
  end
  local values = {}
  for at, value in ipairs(pick(key, fields)) do
    values[fields[at]] = value
  end
  return values
end

-- Keeps each entry unless its name is taken, and adds the fields to write to `sets`. `found` is
-- what `look_up` read. Two arguments of each entry follow argument `before`: the entry and its
-- value's bytes. Returns a letter for each entry (A it is kept, now or before; X another entry has
-- the name), the ends of sleeps, and the new entries.
local function keep_entries(key, found, writes, before, version, now, execution, sets)
  local last, rows, bounds, moment = tonumber(found['j'] or 0), {}, {}, text(now)
  local letters, ends, new, count = {}, {}, {}, #sets
  for at, write in ipairs(writes) do
    local journal, generation, name, is_once, sleep, size, words = unpack(write)
    local plain, once = name_fields(generation, name)
    local entry, value = ARGV[before + 2 * at - 1], ARGV[before + 2 * at]
    local number, till, from = found[plain] or found[once], '0', nil
    if number then
      local row = rows[number] or redis.call('HMGET', key, 'j:' .. number, 'jv:' .. number)
      till, from = string.match(row[1], '^%d+ %d+ %d+ (%d+) %d+ %d+ %S [^%z]*%z[^%z]*%z()')
      letters[at] = string.sub(row[1], from) == entry and (row[2] or '') == value and 'A' or 'X'
    else
      last = last + 1
      number = last .. ''
      if sleep >= 0 then
        till = text(after(now, sleep))
      end
      local field, of_journal = is_once and once or plain, 'jf:' .. journal
      local row = table.concat({ generation, version, moment, till, size, words, is_once and 'o' or '-', execution }, ' ')
        .. '\0' .. journal .. '\0' .. entry
      sets[count + 1], sets[count + 2], sets[count + 3], sets[count + 4] = field, number, 'j:' .. number, row
      count = count + 4
      if size > 0 then
        sets[count + 1], sets[count + 2] = 'jv:' .. number, value
        count = count + 2
      end
      bounds[of_journal] = string.match(found[of_journal] or number, '^%d+') .. ' ' .. number
      found[field], found[of_journal], rows[number] = number, bounds[of_journal], { row, value }
      letters[at], new[#new + 1] = 'A', write
    end
    if sleep >= 0 then
      ends[#ends + 1] = till
    end
  end
  for field, numbers in pairs(bounds) do
    sets[count + 1], sets[count + 2] = field, numbers
    count = count + 2
  end
  if #new > 0 then
    sets[count + 1], sets[count + 2] = 'j', last .. ''
  end
  return letters, ends, new
end

-- Removes entries by generation and name.
local function forget_entries(key, names)
  for _, one in ipairs(names) do
    local generation, name = unpack(one)
    local plain, once = name_fields(generation, name)
    local numbers = redis.call('HMGET', key, plain, once)
    local earlier = numbers[2] and string.match(redis.call('HGET', key, 'j:' .. numbers[2]), '^%d+')
    local number = numbers[1] or (earlier == generation and numbers[2])
    if number then
      redis.call('HDEL', key, numbers[1] and plain or once, 'j:' .. number, 'jv:' .. number)
    end
  end
end
