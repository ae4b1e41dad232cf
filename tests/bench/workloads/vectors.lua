-- Objects with metamethods: a table a result, through __index and __add.
local n = tonumber((...)) or 3000000

local Vector = {}
Vector.__index = Vector

local function vector(x, y, z)
  return setmetatable({x = x, y = y, z = z}, Vector)
end

Vector.__add = function(a, b) return vector(a.x + b.x, a.y + b.y, a.z + b.z) end
Vector.__mul = function(a, k) return vector(a.x * k, a.y * k, a.z * k) end
function Vector:dot(b) return self.x * b.x + self.y * b.y + self.z * b.z end

local at, speed = vector(0, 0, 0), vector(1, 0.5, 0.25)
local sum = 0
for i = 1, n do
  at = at + speed * 0.01
  if i % 100 == 0 then sum = sum + at:dot(speed) end
end
print(string.format("%.6f", sum))
