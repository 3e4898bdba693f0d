--!lua flags=
-- Answers if a commit would be accepted here: its flags, and so its refusals, are those of
-- `commit`.

local book = KEYS[1]
if look(book).store ~= ARGV[1] then
  return emptied()
end
return 1
