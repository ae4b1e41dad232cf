-- Recursion without names: every step of it makes a closure.
local n = tonumber((...)) or 900000

local function fix(f)
  local function half(x)
    return f(function(...) return x(x)(...) end)
  end
  return half(half)
end

local factorial = fix(function(self)
  return function(k) return k < 2 and 1 or k * self(k - 1) end
end)

local sum = 0
for i = 1, n do sum = sum + factorial(i % 16) % 1000003 end
print(sum)
