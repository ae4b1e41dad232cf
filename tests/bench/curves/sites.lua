-- Allocations from n lines in turn: functions of 1000 lines, from one file.
local n, count = tonumber((...)), tonumber((select(2, ...)))

local in_each = math.min(n, 1000)
local name = os.tmpname()
local file = assert(io.open(name, "w"))
file:write("local F = ...\n")
for _ = 1, n // in_each do
  file:write("F[#F + 1] = function() local t\n")
  for _ = 1, in_each do file:write("t = {}\n") end
  file:write("end\n")
end
file:close()
local functions = {}
assert(loadfile(name))(functions)
os.remove(name)

local function round()
  for i = 1, #functions do functions[i]() end
end

round()
local rounds = math.max(1, count // n)
local start = os.clock()
for _ = 1, rounds do round() end
print(rounds * n, os.clock() - start)
