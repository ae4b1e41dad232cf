-- Coroutines as producers: threads made and dropped, switched all the time.
local n = tonumber((...)) or 450000

local function producer(k)
  return coroutine.wrap(function()
    for i = 1, k do coroutine.yield({i, i * 2}) end
  end)
end

local sum = 0
for i = 1, n do
  for pair in producer(12) do sum = sum + pair[1] + pair[2] end
end
print(sum)
