-- Floats in three vectors: nothing is allocated once it runs.
local n = tonumber((...)) or 740

local function cell(i, j)
  local ij = i + j - 1
  return 1.0 / (ij * (ij - 1) * 0.5 + i)
end

local function times(x, y)
  for i = 1, n do
    local sum = 0
    for j = 1, n do sum = sum + x[j] * cell(i, j) end
    y[i] = sum
  end
end

local function times_transposed(x, y)
  for i = 1, n do
    local sum = 0
    for j = 1, n do sum = sum + x[j] * cell(j, i) end
    y[i] = sum
  end
end

local u, v, t = {}, {}, {}
for i = 1, n do u[i] = 1 end
local function step(from, to)
  times(from, t)
  times_transposed(t, to)
end
for _ = 1, 10 do
  step(u, v)
  step(v, u)
end
local vbv, vv = 0, 0
for i = 1, n do
  vbv = vbv + u[i] * v[i]
  vv = vv + v[i] * v[i]
end
print(string.format("%.9f", math.sqrt(vbv / vv)))
