-- Allocations by calls below a stack of n frames.
local n, count = tonumber((...)), tonumber((select(2, ...)))

local function leaf(i) return {i} end

local function work()
  for i = 1, count // 10 do leaf(i) end
  local start = os.clock()
  for i = 1, count do leaf(i) end
  return os.clock() - start
end

local function descend(left)
  if left > 1 then
    local seconds = descend(left - 1)
    return seconds
  end
  local seconds = work()
  return seconds
end

-- a table and its one slot
print(count * 2, descend(n))
