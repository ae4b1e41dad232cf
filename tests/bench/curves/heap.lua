-- Allocations on top of n megabytes that stay; nothing is collected.
local n, count = tonumber((...)), tonumber((select(2, ...)))

collectgarbage("stop")
local function filled(bytes)
  local heap, i = {}, 0
  while collectgarbage("count") * 1024 < bytes do
    for _ = 1, 1000 do
      i = i + 1
      heap[i] = {i}
    end
  end
  return heap
end

local heap = filled(n * 1024 * 1024)
local last = #heap
local start = os.clock()
for i = 1, count do heap[(i * 7919) % last + 1] = {i} end
print(count * 2, os.clock() - start)
os.exit(true, false)
