-- Allocations by n coroutines that are resumed in turn.
local n, count = tonumber((...)), tonumber((select(2, ...)))

local function body()
  while true do
    local t
    for i = 1, 4 do t = {i} end
    coroutine.yield(t)
  end
end

local all = {}
for i = 1, n do all[i] = coroutine.wrap(body) end

local function round()
  for i = 1, n do all[i]() end
end

round()
local rounds = math.max(1, count // (n * 8))
local start = os.clock()
for _ = 1, rounds do round() end
print(rounds * n * 8, os.clock() - start)
