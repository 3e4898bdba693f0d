--!lua flags=
-- Answers if a commit would be taken here: its flags are those of `commit`, and so are its refusals.

local book = KEYS[1]
if look(book).store ~= ARGV[1] then
  return emptied()
end
return 1
