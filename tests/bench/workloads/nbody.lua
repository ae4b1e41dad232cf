-- Numbers only: what the profiler costs a program that allocates nothing.
local n = tonumber((...)) or 1200000

local bodies = {
  {x = 0, y = 0, z = 0, vx = 0, vy = 0, vz = 0, mass = 39.5},
  {x = 4.8, y = -1.2, z = -0.1, vx = 0.6, vy = 2.8, vz = -0.03, mass = 0.038},
  {x = 8.3, y = 4.1, z = -0.4, vx = -1.0, vy = 1.8, vz = 0.008, mass = 0.011},
}

local function advance(dt)
  for i = 1, #bodies do
    local a = bodies[i]
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      local d2 = dx * dx + dy * dy + dz * dz
      local mag = dt / (d2 * d2 ^ 0.5)
      a.vx, a.vy, a.vz = a.vx - dx * b.mass * mag, a.vy - dy * b.mass * mag,
        a.vz - dz * b.mass * mag
      b.vx, b.vy, b.vz = b.vx + dx * a.mass * mag, b.vy + dy * a.mass * mag,
        b.vz + dz * a.mass * mag
    end
  end
  for i = 1, #bodies do
    local a = bodies[i]
    a.x, a.y, a.z = a.x + dt * a.vx, a.y + dt * a.vy, a.z + dt * a.vz
  end
end

for _ = 1, n do advance(0.001) end
print(string.format("%.6f", bodies[1].x))
