-- Libraries and modules are groups without asking; callers by line; rules.
local tide = require "tidemark"
local help = require "help"
local game = require "game.ai"
local check, equal = help.check, help.equal

local function upper(n)
  local out = {}
  for i = 1, n do
    out[i] = ("item %d"):format(i):upper()
  end
  return table.concat(out, ",")
end
upper(300)
for i = 1, 50 do
  game.think(i)
end
local buffer = {}
for i = 1, 100 do
  table.insert(buffer, i)
end
utf8.char(0x263E, 0x263E)
string.format("%s", os.date())
pcall(error, {})
local co = coroutine.create(function() end)
io.write(""):seek("cur")

local json = tide.report("json", {top = 0})
local groups = {}
for _, row in ipairs(help.rows(json, "groups")) do
  groups[row.group] = row
end
for _, name in ipairs {"string", "table", "os", "coroutine"} do
  check(groups[name] and groups[name].alloc_bytes > 0, name .. " is a group")
end
check(groups["game.ai"] and groups["game.ai"].alloc_bytes > 0,
      "a module is a group by its name")
check(not groups["./game/ai.lua"], "and not by its file as well")
check(groups.base == nil or groups.base.alloc_bytes >= 0, "base is one")

-- rules, from Lua and from the file of the options
equal(tide.rule("text", {module = "str*", ["function"] = "*format"}), true,
      "a rule")
local targets = help.rows(tide.report("json", {top = 0}), "targets")
local row = help.target(targets, "text", "string.format")
check(row and row.alloc_bytes > 300 * 8, "it holds for what was recorded")
row = help.target(targets, "brains", "think")
check(row and row.calls == 50, "a rule of the file of rules", row and row.calls)
equal(tide.untarget("text"), true, "rules are given up with their group")
equal(tide.start {targets = "more.rules"}, true, "rules of another file")
targets = help.rows(tide.report("json", {top = 0}), "targets")
check(help.target(targets, "upper", "upper"), "hold at once")
local ok, why = tide.start {targets = "wrong.rules"}
check(ok == nil and why:find("wrong.rules: line 2"), "a wrong file says where",
      why)
