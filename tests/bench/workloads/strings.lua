-- Building text: formats, pieces joined, replaced and upper-cased.
local n = tonumber((...)) or 400000

local size = 0
for i = 1, n do
  local row = {}
  for k = 1, 4 do row[k] = string.format("field-%d=%05d", k, i * k) end
  local line = table.concat(row, ";")
  line = line:gsub("=(%d+)", function(d) return "[" .. d .. "]" end)
  size = size + #line:upper()
end
local text = ""
for i = 1, n // 30 do text = text .. i .. "," end
print(size, #text)
