-- Makes a profile with about n nodes: functions that call each other from ten
-- lines each; every path is a node, up to a depth at which there are enough.
local n = tonumber((...))

local text = {"local F, count = ...", "return function(depth)",
  "local kept = {depth, 'x' .. depth}"}
for i = 1, 10 do
  text[#text + 1] =
    ("if depth > 1 and count() then F[%d](depth - 1) end"):format(i)
end
text[#text + 1] = "return kept end"
text = table.concat(text, "\n")

local made, functions = 0, {}
local function count()
  made = made + 1
  return made < n
end
for i = 1, 10 do
  functions[i] = load(text, "@part" .. i .. ".lua")(functions, count)
end
for depth = 2, 12 do
  if made < n then functions[1](depth) end
end
print(made)
