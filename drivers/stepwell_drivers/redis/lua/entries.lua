-- What writes journal entries, in rows of their run. 'j' is the number of the run's last entry, none of which is
-- given twice. 'j:' and a number: what was stamped (generation, the run's version, moment, end of a sleep, bytes of the
-- value, 'o' of an AT_MOST_ONCE call or '-', the execution, '' if a commit wrote it, the journal), and the entry
-- without its value's bytes. 'jv:' and the number: these. 'jf:' and a journal: the numbers of its first and its
-- last entry. 'jn:', a generation and a name: that entry's number; 'jo:' and a name: the number of an
-- AT_MOST_ONCE call's entry, in whatever generation. A name is journal, key, mark and number, a NUL between them.

local function name_fields(generation, name)
  return 'jn:' .. text(generation) .. '\0' .. name, 'jo:' .. name
end

-- Reads what says which of these entries are there: the fields' values, by field.
local function look_up(key, writes)
  local fields = { 'j' }
  for _, write in ipairs(writes) do
    local journal, generation, name = unpack(write)
    local count = #fields
    fields[count + 1] = 'jf:' .. journal
    fields[count + 2], fields[count + 3] = name_fields(generation, name)
  end
  local values = {}
  for at, value in ipairs(pick(key, fields)) do
    values[fields[at]] = value
  end
  return values
end

-- Keeps entries, each unless one of its name is there, and adds what is to be written for them to `sets`. Two arguments
-- of each stand behind argument `before`: the entry and its value's bytes. Returns of each a letter (A it is kept,
-- now or before; X another one is), the ends of sleeps, and those that are new.
local function keep_entries(key, writes, before, version, now, execution, sets)
  local found = look_up(key, writes)
  local last, rows, bounds = tonumber(found['j'] or 0), {}, {}
  local letters, ends, new = {}, {}, {}

  local function add(field, value)
    sets[#sets + 1] = field
    sets[#sets + 1] = value
  end

  for at, write in ipairs(writes) do
    local journal, generation, name, is_once, sleep, size = unpack(write)
    local plain, once = name_fields(generation, name)
    local entry, value = ARGV[before + 2 * at - 1], ARGV[before + 2 * at]
    local number, till = found[plain] or found[once], '0'
    if number then
      local row = rows[number] or redis.call('HMGET', key, 'j:' .. number, 'jv:' .. number)
      local from
      till, from = string.match(row[1], '^%d+ %d+ %d+ (%d+) %d+ %S [^%z]*%z[^%z]*%z()')
      letters[at] = string.sub(row[1], from) == entry and (row[2] or '') == value and 'A' or 'X'
    else
      last = last + 1
      number = text(last)
      if sleep >= 0 then
        till = text(after(now, sleep))
      end
      local stamped = { text(generation), version, text(now), till, text(size), is_once and 'o' or '-', execution }
      local row = table.concat(stamped, ' ') .. '\0' .. journal .. '\0' .. entry
      add('j:' .. number, row)
      if size > 0 then
        add('jv:' .. number, value)
      end
      add(is_once and once or plain, number)
      found[is_once and once or plain], rows[number] = number, { row, value }
      bounds[journal] = string.match(found['jf:' .. journal] or number, '^%d+') .. ' ' .. number
      found['jf:' .. journal] = bounds[journal]
      letters[at], new[#new + 1] = 'A', write
    end
    if sleep >= 0 then
      ends[#ends + 1] = till
    end
  end
  if #new > 0 then
    add('j', text(last))
  end
  for journal, numbers in pairs(bounds) do
    add('jf:' .. journal, numbers)
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
    local number = numbers[1] or (earlier == text(generation) and numbers[2])
    if number then
      redis.call('HDEL', key, numbers[1] and plain or once, 'j:' .. number, 'jv:' .. number)
    end
  end
end
