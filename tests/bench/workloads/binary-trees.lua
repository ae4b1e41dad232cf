-- Small tables made and dropped by the million: the allocator's own speed.
local depth = tonumber((...)) or 15

local function make(d)
  if d == 0 then return {} end
  return {make(d - 1), make(d - 1)}
end

local function check(t)
  return t[1] and 1 + check(t[1]) + check(t[2]) or 1
end

local keep = make(depth)
local sum = 0
for d = 4, depth, 2 do
  local n = 1 << (depth - d + 4)
  for _ = 1, n do sum = sum + check(make(d)) end
end
print(sum, check(keep))
