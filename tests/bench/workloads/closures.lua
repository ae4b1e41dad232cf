-- Closures and captured variables: function and upvalue blocks, short lives.
local n = tonumber((...)) or 3000000

local function counter(step)
  local value = 0
  return function() value = value + step return value end,
    function() return value end
end

local function compose(f, g)
  return function(x) return f(g(x)) end
end

local sum = 0
for i = 1, n do
  local add, get = counter(i % 7)
  add()
  add()
  sum = sum + get()
end
local f = function(x) return x + 1 end
for i = 1, n // 2 do
  local h = compose(f, function(x) return x + i % 3 end)
  sum = sum + h(i)
end
print(sum)
