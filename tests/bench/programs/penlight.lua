-- Penlight: lists and maps with functions over them, Lua values printed and
-- read back, its lexer, its templates.
local List = require "pl.List"
local OrderedMap = require "pl.OrderedMap"
local lexer = require "pl.lexer"
local pretty = require "pl.pretty"
local stringx = require "pl.stringx"
local tablex = require "pl.tablex"
local template = require "pl.template"
local n = tonumber((...)) or 160

local page = [[
<ul>
# for i, item in ipairs(items) do
<li class="$(item.kind)">$(item.name)</li>
# end
</ul>
]]

local function records(k)
  return List.range(1, k):map(function(i)
    return {name = "item " .. i, kind = i % 2 == 0 and "even" or "odd",
            values = {i, i * i, i * 0.5}}
  end)
end

local function lexed(text)
  local count = 0
  for _ in lexer.lua(text) do count = count + 1 end
  return count
end

local total = 0
for round = 1, n do
  local items = records(60)
  local text = pretty.write(items)
  total = total + #pretty.read(text) + lexed(text)
  local by_kind = OrderedMap()
  for item in items:iter() do
    by_kind:update {[item.kind] = (by_kind:get(item.kind) or 0) + 1}
  end
  local words = stringx.split(text, ",")
  local counts = tablex.count_map(words:map(stringx.strip))
  total = total + tablex.size(counts) + #by_kind:keys() + round
  total = total + #template.substitute(page, {items = items, ipairs = ipairs})
end
print(total)
