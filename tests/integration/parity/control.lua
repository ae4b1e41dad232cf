-- Recording, saving, reports and limits from inside of Lua.
local tide = require "tidemark"
local help = require "help"
local check, equal = help.check, help.equal

local globals = 0
for _ in pairs(_G) do
  globals = globals + 1
end

local function work(n)
  local kept = {}
  for i = 1, n do
    kept[i] = {}
  end
  return kept
end
tide.target("game", work, "work")

check(not io.open("/proc/self/maps"):read("a"):find("/tidemark_report.so"),
      "what makes reports is not there before one is asked for")

-- start and stop, while the program runs on
equal(tide.start(), true, "start")

-- a reset also forgets what calls that are open or just over have made so far
local function spans()
  local kept = work(1000)
  tide.reset()
  return {kept}
end
tide.target("game", spans, "spans")
spans()
work(1000)
tide.start {limit = "1G"}
tide.reset()
local none = help.target(tide.stop(), "game", "work")
equal(none and none.peak, 0, "the worst call is none after a reset")
tide.start()
spans()
local spanned = help.target(tide.stop(), "game", "spans")
check(spanned.peak > 0 and spanned.peak < 1000,
      "that of an open call counts anew", spanned.peak)
tide.limit(0)
tide.start()
tide.reset()
work(100)
local rows = tide.stop()
equal(type(rows), "table", "stop returns rows")
check(#rows <= 30, "thirty at most", #rows)
local row = help.target(rows, "game", "work")
equal(row and row.calls, 1, "calls")
equal(row.bytes, row.kb * 1024, "kb and bytes")
equal(row.bytes_per_call, row.bytes, "bytes per call")
equal(row.peak, row.bytes, "the worst call")
equal(row.source, "control.lua:11", "source")
check(row.rate > 0 and row.live_bytes > 0 and row.blocks > 100 and
      row.died_young_bytes >= 0, "and more")
equal(rows[1].target, "work", "most comes first")
for i = 2, #rows do
  if rows[i - 1].bytes < rows[i].bytes then
    check(false, "rows are sorted", i)
  end
end

-- nothing is counted while it is off
local before = row.bytes
work(1000)
row = help.target(tide.stop(0), "game", "work")
equal(row.bytes, before, "nothing is recorded when it is off")
tide.start()
work(100)
row = help.target(tide.stop(0), "game", "work")
check(row.bytes > before, "it is again after start")
tide.start()

-- save: a name, or one made of the time
equal(tide.save("named.tide"), "named.tide", "save takes a name")
local path = tide.save()
check(path and path:match("^tidemark%-%d+%-%d+%.tide$"), "or makes one", path)
local file = io.open(path, "rb")
equal(file and file:read(8), "TIDEMARK", "it is a profile")
file:close()
os.remove(path)
equal(tide.save("/no/such/folder/x.tide"), nil, "a folder that is not there")

-- reports; what makes them is loaded by then
check(io.open("/proc/self/maps"):read("a"):find("/tidemark_report.so"),
      "reports have an object of their own")
check(tide.report():find("by allocated bytes"), "report as text")
check(tide.report("json"):find('"format": *"tidemark%-report"'),
      "report as JSON")
check(#tide.report("text", {by = "target", filter = "game"}) > 0, "filtered")
for _, bad in ipairs {{"pdf"}, {"text", 3}, {"text", {by = "x"}},
                      {"text", {sort = "x"}}, {"text", {top = -1}},
                      {"text", {filter = "["}}, {3, {}}} do
  local ok, why = pcall(tide.report, table.unpack(bad))
  check(not ok and why:find("bad argument"), "report: wrong arguments", why)
end

-- marks
equal(tide.mark("level 1"), true, "mark")

-- limits: a memory error as Lua has them, and the program goes on
collectgarbage()
local now = math.tointeger(collectgarbage("count") * 1024)
equal(tide.limit(now + 1000000), true, "limit")
local ok, why = pcall(work, 100000)
equal(ok, false, "a limit is kept")
equal(why, "not enough memory", "by the error that Lua has")
check(collectgarbage("count") * 1024 <= now + 1000000, "to the byte")
local held = tide.report("json"):match('"groups": *(%b[])')
check(tonumber(held:match('"group": *"game", *"held_bytes": *(%d+)')) > 900000,
      "what held the heap is known by group", held)
equal(tide.limit("1G"), true, "a limit in words")
equal(#work(100000), 100000, "and taken back")
equal(tide.limit(0), true, "altogether")

-- wrong arguments name themselves
for _, case in ipairs {
  {"target", "group", "bad argument #2 to '[^']*target' %(table or function"},
  {"target", 1, "bad argument #1 to '[^']*target' %(string expected"},
  {"target", "", "bad argument #1"},
  {"untarget", 3, "bad argument #1 to '[^']*untarget'"},
  {"rule", "x", "bad argument #2 to '[^']*rule' %(table expected"},
  {"mark", nil, "bad argument #1 to '[^']*mark'"},
  {"limit", -1, "bad argument #1 to '[^']*limit'"},
  {"limit", "many", "bad argument #1 to '[^']*limit' %(not a size"},
  {"limit", {}, "bad argument #1 to '[^']*limit'"},
  {"stop", "x", "bad argument #1 to '[^']*stop'"},
  {"start", 3, "bad argument #1 to '[^']*start'"},
  {"start", {nonsense = 1}, "unknown option 'nonsense'"},
  {"push", nil, "bad argument #1 to '[^']*push'"},
  {"region", nil, "bad argument #1 to 'region'"},
  {"region", "x", "bad argument #2 to 'region'"},
  {"gcwatch", 1, "bad argument #1 to '[^']*gcwatch'"},
} do
  local ok, why = pcall(tide[case[1]], case[2])
  check(not ok and why:find(case[3]), case[1] .. ": wrong argument", why)
end

-- the host does not notice
local after = 0
for _ in pairs(_G) do
  after = after + 1
end
equal(after, globals, "no globals are made")
equal(debug.gethook(), nil, "no hook is set")

-- printing is asked for
tide.stop(2)
print("end of rows")
