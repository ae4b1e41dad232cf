-- What a program can find out about the state it runs in.  It must print the
-- same under the profiler.
local function sorted(t)
  local keys = {}
  for k in pairs(t) do
    keys[#keys + 1] = type(k) == "string" and k or type(k)
  end
  table.sort(keys)
  return table.concat(keys, " ")
end

print("globals", sorted(_G))
print("loaded", sorted(package.loaded), sorted(package.preload), #package.searchers)
print("registry", sorted(debug.getregistry()))
print("hook", debug.gethook())
print("string methods", sorted(getmetatable("").__index))
print("arguments", #arg, arg[0])
print("gc", collectgarbage("isrunning"), collectgarbage("incremental"),
  collectgarbage("setpause"), collectgarbage("setstepmul"))
print("thread", coroutine.running() ~= nil, coroutine.isyieldable())
print("environment", os.getenv("LUA_INIT"), os.getenv("LUA_INIT_5_4"), os.getenv("LUA_CPATH"))

-- Hooks are the program's own.
local n = 0
debug.sethook(function() n = n + 1 end, "l")
local x = 1
x = x + 1
debug.sethook()
print("lines seen", n)
local calls = {}
debug.sethook(function(what)
  calls[#calls + 1] = what .. " " .. (debug.getinfo(2, "n").name or "?")
end, "cr")
local _ = ("x"):rep(3), {}
debug.sethook()
print("calls seen", table.concat(calls, ", "))

-- Errors, tracebacks, and limits are as ever.
print(pcall(error))
print(pcall(function() local t = nil; t.x = 1 end))
print(select(2, pcall(string.rep, "x", 1 << 60)))
print(select(2, xpcall(function() error("deep") end, debug.traceback)))
local function endless() return 1 + endless() end
local ok, message = pcall(endless)
print(ok, (message:gsub("\n.*", "")))
print(pcall(string.rep))
print(coroutine.resume(coroutine.create(function()
  local function yielding() coroutine.yield(table.unpack({1, 2, 3})) end
  return yielding()
end)))

-- A cycle runs finalizers in the order of their marking.
local order = {}
for i = 1, 5 do
  setmetatable({}, {__gc = function() order[#order + 1] = i end})
end
collectgarbage()
print("finalizers", table.concat(order, " "))
