-- gen.lua SEED: writes a random Lua program to stdout.
--
-- The program ends quickly, prints the same checksum on every run (nothing in
-- it depends on hash order, addresses, time or the collector), and uses what
-- makes attribution hard: tail calls, errors and unwinding, coroutines in
-- coroutines, to-be-closed variables, finalizers, metamethods, generated
-- chunks, deep recursion, varargs, and expressions over several lines.  With
-- its last act it writes to stderr what Lua counts, "count BYTES".
--
-- Values have types: i integer, s string, t table of integers, f function
-- from integers to integers.  A function calls only functions made before it,
-- and a counter, `fuel`, ends what would take too long.

math.randomseed(tonumber((...)) or error("usage: gen.lua SEED"), 0)
local rnd = math.random

local lines, level = {}, 0
local function emit(text) lines[#lines + 1] = ("  "):rep(level) .. text end

local function choose(list) return list[rnd(#list)] end
local function chance(percent) return rnd(100) <= percent end

local n_fail = 4  -- functions that may raise an error
local n_names = 0
local function fresh(prefix)
  n_names = n_names + 1
  return prefix .. n_names
end

-- A scope knows the variables of each type, and what may be done in it.
local function scope(parent, changes)
  local s = {i = {}, s = {}, t = {}, f = {}}
  for _, kind in ipairs{"i", "s", "t", "f"} do
    for k, name in ipairs(parent and parent[kind] or {}) do s[kind][k] = name end
  end
  for _, key in ipairs{"top", "vararg", "may_yield", "may_fail", "loops"} do
    s[key] = parent and parent[key]
  end
  for key, value in pairs(changes or {}) do s[key] = value end
  return s
end

-- Expressions -------------------------------------------------------------

local int, str, tbl, fun

-- A line break where one may stand: expressions then cover several lines.
local function gap() return chance(25) and "\n  " or " " end

local function ints(s, depth, least)
  local list = {}
  for k = 1, rnd(least, 3) do list[k] = int(s, depth) end
  return table.concat(list, "," .. gap())
end

local function call(s, depth)
  if s.may_fail and chance(15) then
    return "E[" .. rnd(n_fail) .. "](" .. int(s, depth) .. ")"
  end
  if s.top > 0 and chance(60) then
    return "F[" .. rnd(s.top) .. "](" .. gap() .. ints(s, depth, 2) .. ")"
  end
  if #s.f > 0 then return choose(s.f) .. "(" .. int(s, depth) .. ")" end
  return "deep(" .. rnd(0, 120) .. ")"
end

local int_forms = {
  function(s, d) return "(" .. int(s, d) .. " + " .. int(s, d) .. ")" end,
  function(s, d) return "(" .. int(s, d) .. " * " .. int(s, d) .. " % 1009)" end,
  function(s, d) return "(" .. int(s, d) .. " // (" .. int(s, d) .. " | 1))" end,
  function(s, d) return "(" .. int(s, d) .. " ~ " .. int(s, d) .. ")" end,
  function(s, d) return "#" .. str(s, d) end,
  function(s, d) return "#" .. tbl(s, d) end,
  function(s, d) return "(" .. tbl(s, d) .. "[" .. rnd(4) .. "] or 0)" end,
  function(s, d) return "(" .. tbl(s, d) .. ".x or 0)" end,
  function(s, d) return "(obj(" .. int(s, d) .. ") + " .. int(s, d) .. ").v" end,
  function(s, d) return "obj(" .. int(s, d) .. ")(" .. int(s, d) .. ")" end,
  function(s, d) return "obj(" .. int(s, d) .. ")." .. choose{"v", "far", "near"} end,
  function(s, d) return "#(obj(" .. int(s, d) .. ") .. " .. str(s, d) .. ")" end,
  function(s, d) return "#obj(" .. int(s, d) .. ")" end,
  function(s, d) return "(obj(" .. int(s, d) .. ") < obj(" .. int(s, d) .. ") and 1 or 2)" end,
  function(s, d) return "(select(" .. gap() .. "2, " .. ints(s, d, 2) .. "))" end,
  function(s) return s.vararg and "select('#', ...)" or "7" end,
  function(s) return s.vararg and "#{...}" or "#{1, 2}" end,
  function(s, d) return "tonumber(" .. gap() .. "tostring(" .. int(s, d) .. "))" end,
  function(s, d) return "math.max(" .. ints(s, d, 2) .. ")" end,
  function(s, d) return fun(s, d) .. "(" .. int(s, d) .. ")" end,
  call, call, call,
}

function int(s, depth)
  if depth <= 0 or chance(20) then
    if #s.i > 0 and chance(70) then return choose(s.i) end
    return tostring(rnd(0, 99))
  end
  return choose(int_forms)(s, depth - 1)
end

local str_forms = {
  function(s, d) return "cut(" .. str(s, d) .. " .." .. gap() .. str(s, d) .. ")" end,
  function(s, d) return "cut(" .. str(s, d) .. " .. " .. int(s, d) .. " ..\n  " .. str(s, d) .. ")" end,
  function(s, d) return "(" .. str(s, d) .. "):upper()" end,
  function(s, d) return "(" .. str(s, d) .. "):sub(1, " .. rnd(60) .. ")" end,
  function(s, d) return "(" .. str(s, d) .. "):rep(" .. rnd(0, 3) .. "):sub(1, 90)" end,
  function(s, d)
    return "string.format(" .. gap() .. "'%d:%s'," .. gap() .. int(s, d) .. ", " .. str(s, d) .. "):sub(1, 90)"
  end,
  function(s, d)
    return "(string.gsub(" .. str(s, d) .. ", '%w'," .. gap() ..
      "function(c) note(#c) return c .. '" .. choose{"", "-", "+"} .. "' end)):sub(1, 90)"
  end,
  function(s, d)
    return "(string.gsub(" .. str(s, d) .. ", '[a-e]', {a = 'long', b = 'tide'})):sub(1, 90)"
  end,
  function(s, d) return "table.concat({" .. str(s, d) .. "," .. gap() .. str(s, d) .. "}, '/'):sub(1, 90)" end,
  function(s, d) return "string.char(65 + " .. int(s, d) .. " % 26)" end,
  function(s, d) return "utf8.char(256 + " .. int(s, d) .. " % 512)" end,
  function(s, d) return "tostring(" .. int(s, d) .. ")" end,
  function(s, d) return "string.pack('s4', " .. str(s, d) .. ")" end,
}

function str(s, depth)
  if depth <= 0 or chance(25) then
    if #s.s > 0 and chance(60) then return choose(s.s) end
    return choose{"('mark')", "('abcdefghij')", "('')", "([[two\nlines of text that are longer than forty bytes]])"}
  end
  return choose(str_forms)(s, depth - 1)
end

local tbl_forms = {
  function(s, d) return "{" .. ints(s, d, 1) .. "}" end,
  function(s, d) return "{x = " .. int(s, d) .. ", y = " .. int(s, d) .. "}" end,
  function(s, d)
    return "{\n  " .. int(s, d) .. ",\n  x = " .. int(s, d) .. ",\n  " .. call(s, d) .. ",\n}"
  end,
  function(s, d) return "{" .. int(s, d) .. "," .. gap() .. call(s, d) .. "}" end,
  function(s) return s.vararg and "{...}" or "{}" end,
  function(s) return s.vararg and "{1,\n  2, ...}" or "\n  {3}" end,
  function(s, d) return "table.pack(" .. ints(s, d, 1) .. ")" end,
  function(s, d) return "{" .. gap() .. "table.unpack(" .. tbl(s, d) .. ")}" end,
  function(s, d) return "{(" .. str(s, d) .. "):byte(1, -1)}" end,
  function(s, d) return "table.move(" .. tbl(s, d) .. ", 1, 3, 2, {9})" end,
  function() return "deeplist(" .. rnd(0, 150) .. ")" end,
}

function tbl(s, depth)
  if depth <= 0 or chance(20) then
    if #s.t > 0 and chance(60) then return choose(s.t) end
    return "({})"
  end
  return "(" .. choose(tbl_forms)(s, depth - 1) .. ")"
end

-- Statements --------------------------------------------------------------

local block

-- A function's body, written into a buffer of its own.
local function body(s, n_statements, last)
  local saved, saved_level = lines, level
  lines, level = {}, 1
  emit("if fuel <= 0 then " .. (last and "return 1" or "return") .. " end")
  emit("fuel = fuel - 1")
  block(s, n_statements)
  if last then emit("return " .. last(s)) end
  local text = table.concat(lines, "\n" .. ("  "):rep(saved_level))
  lines, level = saved, saved_level
  return text
end

local function inner(s, changes)
  local new = scope(s, changes)
  new.loops = 3
  return new
end

function fun(s, depth)
  local p = fresh("p")
  local new = inner(s, {vararg = false, may_yield = false, may_fail = false})
  new.i[#new.i + 1] = p
  if depth <= 0 or chance(50) then
    return "(function(" .. p .. ") return " .. int(new, depth - 1) .. " end)"
  end
  return "(function(" .. p .. ")\n" .. body(new, 2, function(b) return int(b, 1) end) .. "\nend)"
end

-- What a function of integers may end with: values, or a tail call.
local function ending(s)
  local forms = {
    function() return int(s, 2) end,
    function() return int(s, 1) .. ", " .. int(s, 1) end,
    function() return s.top > 0 and "F[" .. rnd(s.top) .. "](" .. ints(s, 1, 2) .. (s.vararg and ", ...)" or ")") or "1" end,
    function() return #s.f > 0 and choose(s.f) .. "(" .. int(s, 1) .. ")" or "2" end,
    function() return "math.max(" .. ints(s, 1, 2) .. ")" end,
    function() return "pingpong(" .. rnd(0, 9) .. ")" end,
    function() return "#table.concat({" .. str(s, 1) .. "})" end,
  }
  return choose(forms)()
end

local function yielding(s, arguments)
  local new = inner(s, {vararg = false, may_yield = true, may_fail = arguments.may_fail})
  local p = fresh("p")
  new.i[#new.i + 1] = p
  return "function(" .. p .. ")\n  " .. p .. " = " .. p .. " or 0\n" ..
    body(new, rnd(2, 4), arguments.last) .. "\nend"
end

local function one_int(s) return int(s, 1) end

local function declare(s, kind, make)
  if #s[kind] >= 25 then return end
  local name = fresh(kind == "i" and "n" or kind)
  emit("local " .. name .. " =" .. gap() .. make(s, rnd(1, 3)))
  s[kind][#s[kind] + 1] = name
end

local statements = {
  function(s) declare(s, "i", int) end,
  function(s) declare(s, "s", str) end,
  function(s) declare(s, "t", tbl) end,
  function(s) declare(s, "f", fun) end,
  function(s) emit("note(" .. int(s, 3) .. ")") end,
  function(s) emit("note(#" .. str(s, 3) .. ")") end,
  function(s)
    if #s.i > 0 then emit(choose(s.i) .. " = " .. int(s, 2)) end
  end,
  function(s)
    if #s.t > 0 then emit("put(" .. choose(s.t) .. ", " .. int(s, 2) .. ")") end
  end,
  function(s)
    emit("if " .. int(s, 1) .. " % 2 == 0 then")
    block(scope(s), rnd(2))
    emit("else")
    block(scope(s), rnd(2))
    emit("end")
  end,
  function(s)
    if s.loops == 0 then return end
    local i = fresh("n")
    emit("for " .. i .. " = 1, " .. rnd(4) .. " do")
    local new = scope(s, {loops = s.loops - 1})
    new.i[#new.i + 1] = i
    level = level + 1
    emit("if " .. i .. " == 2 then goto next_" .. i .. " end")
    emit("do")
    block(new, rnd(3))
    emit("end")
    emit("::next_" .. i .. "::")
    level = level - 1
    emit("end")
  end,
  function(s)
    if s.loops == 0 then return end
    local i = fresh("n")
    emit("do")
    emit("  local " .. i .. " = 0")
    emit("  ::top_" .. i .. "::")
    emit("  " .. i .. " = " .. i .. " + 1")
    emit("  do")
    block(scope(s, {loops = s.loops - 1}), rnd(2))
    emit("  end")
    emit("  if " .. i .. " < " .. rnd(3) .. " then goto top_" .. i .. " end")
    emit("end")
  end,
  function(s)  -- pcall and error
    local new = inner(s, {vararg = false, may_fail = true})
    local text = body(new, rnd(3), chance(50) and one_int or function(b)
      return choose{"error({code = " .. int(b, 1) .. "})", "error(" .. str(b, 1) .. ")",
                    "error(" .. int(b, 1) .. ", 2)", "1 + nil", "({})()", "('x'):rep(-1):nosuch()"}
    end)
    emit("note(outcome(pcall(function()\n" .. text .. "\nend)))")
  end,
  function(s)  -- xpcall with a handler that allocates
    local new = inner(s, {vararg = false, may_fail = true, may_yield = false})
    emit("note(outcome(xpcall(function(...)\n" .. body(new, rnd(2), function(b)
      return chance(50) and "error(obj(" .. int(b, 1) .. "))" or int(b, 1)
    end) .. "\nend, handler, " .. int(s, 1) .. ")))")
  end,
  function(s)  -- a coroutine, resumed to its end or closed before
    emit("drain(" .. rnd(0, 5) .. ", coroutine.create(" ..
      yielding(s, {may_fail = true, last = one_int}) .. "))")
  end,
  function(s)  -- wrap as an iterator
    local v = fresh("n")
    emit("for " .. v .. " in coroutine.wrap(" .. yielding(s, {may_fail = false}) .. ") do")
    emit("  note(" .. v .. ")")
    emit(chance(50) and "  if " .. v .. " % 7 == 0 then break end" or "  local _ = {" .. v .. "}")
    emit("end")
  end,
  function(s)  -- a coroutine that is left where it stands
    emit("parked[#parked % 8 + 1] = start(" .. yielding(s, {may_fail = true, last = one_int}) .. ")")
  end,
  function(s)
    if s.may_yield then
      emit("note(coroutine.yield(" .. int(s, 2) .. ") or 5)")
    end
  end,
  function(s)
    if s.may_yield then declare(s, "i", function(b, d) return "(coroutine.yield(" .. int(b, d - 1) .. ") or 3)" end) end
  end,
  function(s)  -- variables that are closed
    emit("do")
    level = level + 1
    emit("local " .. fresh("g") .. " <close> = guard(" .. int(s, 1) .. ")")
    if chance(50) then emit("local " .. fresh("g") .. " <close> = guard(" .. int(s, 1) .. ")") end
    level = level - 1
    block(scope(s), rnd(3))
    emit("end")
  end,
  function(s)  -- objects with finalizers
    emit("for _ = 1, " .. rnd(5) .. " do mortal(" .. int(s, 1) .. ") end")
  end,
  function(s)  -- sort with a comparator that allocates
    local t = fresh("t")
    emit("local " .. t .. " =" .. gap() .. tbl(s, 2))
    emit("for k = 1, " .. rnd(12) .. " do " .. t .. "[#" .. t .. " + 1] = (k * 7919) % 101 end")
    emit("table.sort(" .. t .. ", function(a, b)")
    emit("  local pair = {a, b}")
    emit("  return pair[1] < pair[2]")
    emit("end)")
    emit("note(" .. t .. "[1])")
  end,
  function(s)  -- generated chunks
    local name = choose{"'=gen" .. rnd(3) .. "'", "'@gen" .. rnd(3) .. ".lua'", "nil", "'=(' .. " .. int(s, 1) .. " .. ')'"}
    emit("note(assert(load([==[")
    emit("local a, b = ...")
    emit("local t = {a,")
    emit("  b, x =\n {a .. 'generated'}}")
    emit("local f = function(c)\n  return c + a\nend")
    emit("return f(#t) + b, " .. rnd(99) .. "]==], " .. name .. "))(" .. int(s, 1) .. ", " .. int(s, 1) .. "))")
  end,
  function(s)
    emit("note(load(string.dump(function(a)\n  local t = {a,\n a}\n  return #t + a\nend, " ..
      choose{"true", "false"} .. "))(" .. int(s, 1) .. "))")
  end,
  function(s)  -- iterators
    emit("for w in (" .. str(s, 2) .. "):gmatch('%w+') do note(#w) end")
    emit("for k, v in ipairs(" .. tbl(s, 2) .. ") do note(k + v) end")
    emit("do")
    emit("  local total = 0")
    emit("  for _, v in pairs(" .. tbl(s, 2) .. ") do total = total + v end")
    emit("  note(total)")
    emit("end")
  end,
  function() emit(choose{"collectgarbage('step')", "collectgarbage('step', 4)", "note(#debug.traceback('t') > 0 and 1 or 0)",
                         "collectgarbage()", "collectgarbage('generational')", "collectgarbage('incremental')"}) end,
  function(s) emit("note(wide(table.unpack(deeplist(" .. rnd(0, 200) .. "))) + " .. int(s, 1) .. ")") end,
  function() emit("note(outcome(pcall(sink, " .. rnd(0, 150) .. ")))") end,
}

function block(s, n)
  level = level + 1
  for _ = 1, n do
    if #lines > 400 then break end
    choose(statements)(s)
  end
  level = level - 1
end

-- The program -------------------------------------------------------------

local prelude = [==[
local fuel, sum, finalized = 1500, 0, 0
local parked, F, E = {}, {}, {}
local function note(x) sum = (sum * 31 + x) % 2147483647 end
local function cut(s) return #s > 120 and s:sub(1, 120) or s end
local function put(t, x) t[#t % 40 + 1] = x end
local function outcome(ok, e)
  if ok then return 1 end
  return type(e) == "string" and 2 or 3
end
local function handler(e)
  local trace = debug.traceback("failed", 2)
  return {e, trace}
end
local function deep(n)
  if n == 0 then return 1 end
  local r = deep(n - 1)
  return r + #{n}
end
local function deeplist(n)
  if n == 0 then return {1} end
  local t = deeplist(n - 1)
  t[#t + 1] = n
  return t
end
local function sink(n)
  local t = {n}
  if n == 0 then error({"bottom"}) end
  sink(n - 1)
  return t
end
local function wide(...)
  local function count(...) return select("#", ...) end
  return count(...) + count(1, ...)
end
local pong
local function pingpong(n)
  local t = {n}
  if n == 0 then return #t end
  return pong(n - 1, t)
end
function pong(n, t)
  local u = {t, n}
  if n == 0 then return #u end
  return pingpong(n - 1)
end
local Obj = {}
local function obj(v) return setmetatable({v = v}, Obj) end
Obj.__index = function(o, key) return key == "far" and #{o.v, key} or 4 end
Obj.__add = function(a, b)
  if coroutine.isyieldable() then coroutine.yield(8) end
  return obj((type(a) == "table" and a.v or a) + (type(b) == "table" and b.v or b))
end
Obj.__call = function(o, x) return o.v + x end
Obj.__concat = function(a, b) return (type(a) == "table" and "o" or a) .. (type(b) == "table" and "o" or b) end
Obj.__lt = function(a, b) return #{a.v} < 2 and a.v < b.v end
Obj.__len = function(o) return #{o, o, o} end
local Guard = {__close = function(g, e)
  note(g.n + (e == nil and 1 or 2))
  g.last = {g.n}
end}
local function guard(n) return setmetatable({n = n}, Guard) end
local Mortal = {__gc = function(m)
  finalized = finalized + 1
  m.last = {m.n, m.n}
  if m.n % 5 == 0 then error("from a finalizer") end
end}
local function mortal(n) return setmetatable({n = n}, Mortal) end
local function drain(most, co)
  local n = 0
  while coroutine.status(co) == "suspended" and n < most do
    local ok, v = coroutine.resume(co, n)
    note(ok and v or 6)
    n = n + 1
  end
  if coroutine.status(co) == "suspended" then note(coroutine.close(co) and 1 or 2) end
end
local function start(fn)
  local co = coroutine.create(fn)
  coroutine.resume(co, 1)
  return co
end
local books = ... or function() end
]==]

local root = scope(nil, {top = 0, vararg = false, may_yield = false, may_fail = false, loops = 3})
for line in prelude:gmatch("[^\n]*") do emit(line) end
for k = 1, n_fail do
  local s = scope(root, {may_fail = false})
  s.i = {"a"}
  emit("E[" .. k .. "] = function(a)")
  emit(body(s, 1))
  emit("  if a % 3 == 0 then error(" .. choose{"{a}", "'odd'", "obj(a)"} .. ") end")
  emit("  return a")
  emit("end")
end
for k = 1, 8 do
  local s = scope(root, {top = k - 1, vararg = chance(60)})
  s.i = {"a", "b"}
  emit("F[" .. k .. "] = function(a, b" .. (s.vararg and ", ...)" or ")"))
  emit("b = b or 1")
  emit(body(s, rnd(2, 5), ending))
  emit("end")
end
local main = scope(root, {top = 8})
emit("for round = 1, 4 do")
for _ = 1, 8 do
  emit("  do")
  block(scope(main), rnd(3, 6))
  emit("  end")
  emit("  books(round)")
  emit("  fuel = fuel + 100")
end
emit("end")
emit("print(sum, fuel)")
emit("collectgarbage('stop')")
emit("io.stderr:write('count ', math.tointeger(collectgarbage('count') * 1024), '\\n')")
io.write(table.concat(lines, "\n"), "\n")
