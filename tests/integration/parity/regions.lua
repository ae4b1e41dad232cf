-- Regions: in coroutines, errors, tail calls; bytes against Lua's own count.
local tide = require "tidemark"
local help = require "help"
local check, equal = help.check, help.equal

local function make(n)
  local t = {}
  for i = 1, n do
    t[i] = {}
  end
  return t
end

-- every name and its machinery once, so that only the work is measured
local function warm(name) tide.region(name, function() end) end
for _, name in ipairs {"load", "inner", "coroutine", "fails"} do
  warm(name)
end
collectgarbage()
collectgarbage("stop")
local each = help.grown(make, 7)
make(7)
tide.reset()

local function sum(...)
  local n = 0
  for i = 1, select("#", ...) do
    n = n + select(i, ...)
  end
  return n, ...
end
tide.region("once", make, 7) -- its machinery is made now
local a, b, c, d = tide.region("load", function(...)
  make(7)
  return sum(...)
end, 1, 2, 3)
equal(a, 6, "region gives arguments") 
equal(d, 3, "region returns all results")
equal(select("#", tide.region("load", function() end)), 0, "and none")
tide.region("load", function()
  make(7)
  tide.region("inner", make, 7)
  make(7)
end)

local co = coroutine.wrap(function()
  return tide.region("coroutine", function()
    for i = 1, 3 do
      make(7)
      coroutine.yield(i)
    end
    return "done", 4
  end)
end)
equal(co(), 1, "a region yields")
make(7)
co()
co()
local done, four = co()
equal(done, "done", "and goes on")
equal(four, 4, "with its results")

local ok, err = pcall(tide.region, "fails", function()
  make(7)
  error({})
end)
equal(ok, false, "an error leaves a region")
equal(type(err), "table", "as it was")
make(7)

-- push and pop
local function work()
  make(7)
  tide.push("pushed")
  make(7)
  tide.push("deeper")
  make(7)
  equal(tide.pop(), "deeper", "pop returns the name")
  make(7)
  equal(tide.pop(), "pushed", "of the outer one as well")
  make(7)
end
work()
equal(select(2, pcall(tide.pop)), "pop without push in this call",
      "pop without push")
local function leaves(how)
  tide.push("left")
  make(7)
  if how == "error" then
    error("x")
  end
  return how
end
leaves("return")
make(7)
pcall(leaves, "error")
make(7)
local threads = {}
for i = 1, 2 do
  threads[i] = coroutine.wrap(function()
    tide.push("thread " .. i)
    for k = 1, 3 do
      make(7)
      coroutine.yield()
    end
    equal(tide.pop(), "thread " .. i, "pop in coroutine " .. i)
    make(7)
  end)
end
for k = 1, 4 do
  threads[1]()
  threads[2]()
end

local json = tide.report("json", {top = 0})
local targets = help.rows(json, "targets")
local expect = {once = 1, load = 3, inner = 1, coroutine = 3, fails = 1,
                pushed = 2, deeper = 1, left = 2, ["thread 1"] = 3, ["thread 2"] = 3}
for name, n in pairs(expect) do
  local row = help.target(targets, "regions", name)
  local bytes = row and row.alloc_bytes or -1
  -- closures, varargs and error objects of the programs above are small
  check(bytes >= n * each and bytes < n * each + each // 2,
        "bytes of region " .. name, bytes .. " is not " .. n * each)
end
equal(help.target(targets, "regions", "load").calls, 2,
      "activations that allocated")
equal(help.target(targets, "regions", "once").calls, 1,
      "what makes a region's function is none of its calls")
local groups = 0
for _, row in ipairs(help.rows(json, "groups")) do
  if row.group == "regions" then
    groups = row.alloc_bytes
  end
end
local sum_of = 0
for name in pairs(expect) do
  sum_of = sum_of + help.target(targets, "regions", name).alloc_bytes
end
equal(groups, sum_of, "regions are a group")
check(json:find('%[region%] load'), "regions are frames")
