-- scheduler.lua: a random walk through coroutines, by one seed.
--
-- gen.lua's coroutines run to their end where they were made.  Here they are
-- resumed in any order, from any depth of any other one and from finalizers,
-- yield below pcall and in loops over coroutines, die of errors, are closed, and
-- are left.  gen.py puts the seed in front, and says what must hold.
-- `count` at the end as in gen.lua.

local random = math.random
math.randomseed(seed)

local MOST_DEEP, SLOTS = 12, 12
local cos, kept, depth, n_made = {}, {}, 0, 0
local act

local function make()
  n_made = n_made + 1
  kept[random(50)] = {random(3)}
  if random(4) == 1 then
    local n = n_made
    kept[random(50)] = function() return n end
  end
  if random(6) == 1 then kept[random(50)] = ("x"):rep(random(200)) end
  if random(5) == 1 then
    local list = {}
    for i = 1, random(20) do list[i] = i end
    kept[random(50)] = list
  end
end

local function deeper(n)
  if n == 0 then return act() end
  make()
  local result = deeper(n - 1)
  make()
  return result
end

local function tail(n)
  if n > 0 then return tail(n - 1) end
  return deeper(random(3))
end

local function body()
  for i = 1, random(6) do
    make()
    if random(3) == 1 then coroutine.yield(i) end
    make()
    act()
  end
  if random(10) == 1 then error("odd") end
  if random(10) == 1 then error({}) end
  return {}
end

local function guarded()
  local _, message = pcall(body)
  make()
  return message
end

-- A function that resumes a new coroutine, and that one if it can be closed.
local function start()
  local how = random(3)
  if how == 1 then return coroutine.wrap(body) end
  local co = coroutine.create(how == 2 and body or guarded)
  return function() return coroutine.resume(co) end, co
end

local function close(co)
  local status = co and coroutine.status(co)
  if status == "suspended" or status == "dead" then coroutine.close(co) end
end

local function mortal()
  return setmetatable({}, {__gc = function()
    make()
    if random(2) == 1 then return end
    local inner = coroutine.wrap(function() make() coroutine.yield() make() end)
    inner()
    make()
    inner()
  end})
end

local function loop()
  local inner = coroutine.wrap(function()
    for i = 1, 3 do make() coroutine.yield(i) end
  end)
  for _ in inner do make() end
end

local acts = {
  make, make, make,
  function() cos[random(SLOTS)] = table.pack(start()) end,
  function() local c = cos[random(SLOTS)] if c then pcall(c[1]) end end,
  function() local c = cos[random(SLOTS)] if c then pcall(c[1]) end end,
  function() local c = cos[random(SLOTS)] if c then pcall(c[1]) end end,
  function() pcall(deeper, random(4)) end,
  function() tail(random(4)) end,
  function() local c = cos[random(SLOTS)] if c then close(c[2]) end end,
  function() collectgarbage("step", random(10)) end,
  function() if random(20) == 1 then collectgarbage() end end,
  function() kept[random(50)] = mortal() end,
  loop,
}

function act()
  if depth == MOST_DEEP then return end
  depth = depth + 1
  acts[random(#acts)]()
  if random(3) == 1 and coroutine.isyieldable() then
    make()
    coroutine.yield(1)
    make()
  end
  depth = depth - 1
end

collectgarbage(seed % 2 == 0 and "generational" or "incremental")
for _ = 1, 4000 do
  depth = 0
  pcall(act)
end
print(seed)
collectgarbage("stop")
io.stderr:write("count ", math.tointeger(collectgarbage("count") * 1024), "\n")
