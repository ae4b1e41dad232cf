-- Groups of functions: by table, nested, metatables, single functions; bytes
-- against Lua's own count.
local tide = require "tidemark"
local help = require "help"
local check, equal = help.check, help.equal

local Net = {}
function Net.receive(n)
  local t = {}
  for i = 1, n do
    t[i] = {}
  end
  return t
end

local Hooks = {timers = {}, deep = {er = {}}}
function Hooks.think(n)
  local own = {}
  for i = 1, n do
    own[i] = ("%d"):rep(40, ",")
  end
  return own, Net.receive(n)
end
function Hooks.timers.tick() return {} end
function Hooks.deep.er.down() return {{}} end
Hooks.deep.er.up = Hooks -- a cycle
Hooks.idle = function() end
Hooks[1] = function() return {{}, {}} end
Hooks[true] = function() return {{}, {}, {}} end
Hooks.alias = string.upper      -- stands in the table that is given
Hooks.deep.alias = string.lower -- does not

local Account = {}
Account.__index = Account
function Account.__add(a, b)
  return setmetatable({a[1] + b[1]}, Account)
end
function Account:deposit(n)
  self[1] = self[1] + n
  return {n}
end
Account.__tostring = function(a)
  return ("account %d"):format(a[1])
end

-- used before it is named, as timers that were made before the start
local early = Hooks.timers.tick
early()

local before = Hooks.think
equal(tide.target("hooks", Hooks, "Hooks"), 7, "every function is named once")
equal(tide.target("net", Net.receive, "Net.receive"), 1, "a single function")
local purse = setmetatable({1}, Account)
equal(tide.target("money", {purse = purse}), 3, "metatables and what they have")
equal(tide.target("later", {}), 0, "a table with nothing in it")
equal(Hooks.think, before, "nothing is wrapped")
equal(getmetatable(purse), Account, "metatables stay")

-- no recursion: a chain of tables that C recursion would not survive
local chain = {}
local last = chain
for i = 1, 200000 do
  last.next = {}
  last = last.next
end
last.f = function() return {} end
equal(tide.target("chain", chain), 1, "tables may be nested without limit")
chain, last = nil, nil

-- what is added later needs a call of its own, and no restart
function Hooks.late() return {{}, {}, {}, {}} end
equal(tide.target("hooks", Hooks.late, "Hooks.late"), 1, "late additions")

local expect = {}
local function run(name, f, ...)
  local n = help.grown(f, ...)
  expect[name] = (expect[name] or 0) + n
end
-- Lua's records of calls are made once: not in what is measured
local function add() return purse + purse end
collectgarbage()
collectgarbage("stop")
Hooks.think(1)
purse:deposit(1)
run("", add)
Hooks.deep.er.down()
tide.reset()
expect = {}
for i = 1, 20 do
  local net = help.grown(Net.receive, i)
  expect["Net.receive"] = (expect["Net.receive"] or 0) + 2 * net
  local all = help.grown(Hooks.think, i)
  expect["Hooks.think"] = (expect["Hooks.think"] or 0) + all - net
  run("Hooks.timers.tick", early)
  run("Hooks.deep.er.down", Hooks.deep.er.down)
  run("Hooks[1]", Hooks[1])
  run("Hooks[true]", Hooks[true])
  run("Hooks.late", Hooks.late)
  run("Hooks.idle", Hooks.idle)
  run("purse.deposit", purse.deposit, purse, i)
  run("purse.__add", add)
end
-- errors and coroutines
local function fails()
  local t = {{}, {}}
  error(t)
end
tide.target("errors", fails, "fails")
for i = 1, 10 do
  pcall(fails)
end
local function body()
  for i = 1, 10 do
    local t = {{}}
    coroutine.yield()
  end
end
tide.target("coroutines", body, "body")
local resume = coroutine.wrap(body)
resume()
for i = 2, 10 do
  run("body", resume)
end

local stats = tide.stats()
local json = tide.report("json", {top = 0})
collectgarbage("restart")
local targets = help.rows(json, "targets")
local groups = {["Net.receive"] = "net", ["purse.deposit"] = "money",
                ["purse.__add"] = "money", fails = "errors",
                body = "coroutines"}
local first = 0 -- the first time that body runs is not measured
for name, bytes in pairs(expect) do
  local row = help.target(targets, groups[name] or "hooks", name)
  if not row then
    check(bytes == 0, name .. " has a row", "none")
  elseif name == "body" then
    -- the first time makes a record of a call as well
    local all = bytes // 9 * 10
    check(row.alloc_bytes == all or row.alloc_bytes == all + 64,
          "bytes of body, in a coroutine", row.alloc_bytes)
  else
    equal(row.alloc_bytes, bytes, "bytes of " .. name)
  end
end
equal(help.target(targets, "hooks", "Hooks.think").calls, 20, "calls")
local most = help.target(targets, "hooks", "Hooks.think").max_call_bytes
equal(most, help.grown(Hooks.think, 20), "the worst single call, all of it")
-- each call: three tables, two places
local failed = help.target(targets, "errors", "fails")
check(failed and failed.alloc_bytes >= 10 * (3 * 56 + 32) and
      failed.alloc_bytes < 10 * (3 * 56 + 32) + 1000,
      "bytes of a function that fails", failed and failed.alloc_bytes)
equal(failed.calls, 10, "calls of one that fails")
check(help.target(targets, "hooks", "Hooks.alias"),
      "a library's function may be named")
check(not help.target(targets, "hooks", "Hooks.deep.alias"),
      "and is not taken from it unasked")
local idle = help.target(targets, "hooks", "Hooks.idle")
equal(idle and idle.alloc_bytes, 0, "a function that did nothing is listed")

-- rows add up
local sum, rest = 0, 0
for _, row in ipairs(targets) do
  sum = sum + row.alloc_bytes
  if row.what == "rest" then
    rest = rest + 1
  end
end
equal(rest, 1, "the rest is one row")
local total = tonumber(json:match('"alloc_bytes": *(%d+)'))
equal(sum, total, "rows add up to all bytes")
local group_sum, later = 0
for _, row in ipairs(help.rows(json, "groups")) do
  group_sum = group_sum + row.alloc_bytes
  if row.group == "later" then
    later = row
  end
end
equal(group_sum, total, "groups add up to all bytes")
equal(later and later.alloc_bytes, 0, "a group that is empty is listed")
local text = tide.report("text", {by = "target", top = 0, filter = "^hooks ",
                                  columns = 200})
check(text:find("nothing recorded"), "and says that nothing was recorded", text)
check(text:find("named: %d groups with 15 targets; nothing was recorded in "),
      "the header counts groups and targets", text:match("named:[^\n]*"))
for _, column in ipairs {"group", "target", "source", "total", "per s",
                         "calls", "B/call", "peak", "live", "blocks",
                         "young"} do
  check(text:find("\n[^\n]*%f[%w]" .. column:gsub("/", "%%/") .. "%f[%W]"),
        "the table has " .. column)
end

-- taken back
equal(tide.untarget("net"), true, "a group is given up")
equal(tide.untarget(Hooks.idle), 1, "a function is")
equal(tide.untarget({a = Hooks.late}), 1, "the functions of a table are")
equal(tide.untarget("nobody"), nil, "a group that there is not")
targets = help.rows(tide.report("json", {top = 0}), "targets")
check(not help.target(targets, "net", "Net.receive"), "its row is gone")
check(not help.target(targets, "hooks", "Hooks.late"), "and those")
check(help.target(targets, "hooks", "Hooks.think"), "others stay")
