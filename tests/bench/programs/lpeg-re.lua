-- LPeg's re: a grammar that makes a tree of captures of Lua's own tokens, and
-- patterns compiled over and over, which allocate through lua_getallocf.
local re = require "re"
local n = tonumber((...)) or 300

local tokens = re.compile([[
  chunk   <- {| (%s+ / comment / token)* |} !.
  comment <- '--' [^%nl]*
  token   <- {| {:kind: '' -> 'name' :} {[A-Za-z_] [A-Za-z_0-9]*} |}
           / {| {:kind: '' -> 'number' :} {[0-9]+ ('.' [0-9]+)?} |}
           / {| {:kind: '' -> 'string' :} string |}
           / {| {:kind: '' -> 'sign' :} {.} |}
  string  <- '"' {('\' . / [^"\])*} '"' / "'" {('\' . / [^'\])*} "'"
]])

local lines = {}
for i = 1, 600 do
  lines[i] = ('local value_%d = call("text %d", %d.5) -- note %d'):format(
    i, i, i, i)
end
local text = table.concat(lines, "\n")

local found, size = 0, 0
for i = 1, n do
  found = found + #tokens:match(text)
  size = size + #re.gsub(text, "[0-9]+", "#")
  for k = 1, 40 do
    local pattern = re.compile("{'value_" .. k .. "'} / . [a-z]* %s*")
    size = size + (pattern:match(text, i) and 1 or 0)
  end
end
print(found, size)
