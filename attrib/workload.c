/*
** workload.c: a Lua program that allocates in every way there is.
**
** It is run to its end in three threads of the throwaway state.  Where it
** leaves the thread that runs it, it says so: `blind()` before a switch,
** `mark()` after.  Each table constructor of `ctors` sets a register of its
** own, so that the one being run can be told from the register.
**
** It is all about who asks the allocator.  What is asked for in the same way
** by other functions is left out: dates, numbers with a point, formats and
** classes of characters would bring parts of libc into memory that the program
** itself may never use.
*/
#include "probe.h"

const char tideT_workload[] =
    "local mark, blind = mark, blind\n"
    "local checkframe, checktail, checkfin = checkframe, checktail, checkfin\n"
    "mark()\n"
    /* constructors, each in a register of its own */
    "local function ctors(...)\n"
    "  local a = {} local b = {1, 2, 3} local c = {x = 1, y = 2}\n"
    "  local d = {...} local e = {1, x = 2} local f = {tostring(1)}\n"
    "  local g = {[1] = 2} local h = {} h.k = a\n"
    "  return a, b, c, d, e, f, g, h\n"
    "end\n"
    "for i = 1, 3 do ctors(1, 2, 3, 4, 5, 6) end\n"
    /* growth of arrays, hashes, stacks, call records */
    "local t = {} for i = 1, 40 do t[i] = i end\n"
    "local u = {} for i = 1, 20 do u['k' .. i] = i end\n"
    "local s = {} for i = 1, 20 do s[i * 1000] = i end\n"
    "local function deep(n) if n > 0 then return 1 + deep(n - 1) end\n"
    "  return 0 end\n"
    "deep(150)\n"
    "local function spread(...) return select('#', ...) end\n"
    "spread(table.unpack(t)) spread(table.unpack(t, 1, 39))\n"
    /* closures and upvalues */
    "local fs = {} for i = 1, 4 do fs[i] = function() i = i + 1 return i end\n"
    "  fs[i]() end\n"
    /* strings */
    "local w = string.rep('w', 60) local x = ''\n"
    "for i = 1, 6 do x = x .. w end\n"
    "x = string.rep(w, 50) x = string.rep(w, 150)\n"
    "x = ('rw'):rep(6):gsub('r', w:rep(8))\n"
    "x = x:sub(2, 900) x = x:reverse()\n"
    "x = ('x'):rep(50, ',')\n"
    "x = string.pack('s4', w) x = string.char(97, 98, 99)\n"
    "x = tostring(t) x = tostring(12) x = w .. 1 .. 25\n"
    "for k in w:gmatch('w+') do x = k end\n"
    /* library */
    "x = table.concat(t, w) t = table.pack(table.unpack(t))\n"
    "table.sort(t, function(p, q) return p < q end)\n"
    "table.insert(t, 1) table.move(t, 1, 10, 50) table.remove(t)\n"
    "x = debug.traceback('m') x = utf8 and utf8.char(228, 8364)\n"
    /* errors */
    "x = select(2, pcall(error, {1})) x = select(2, pcall(error, w .. 'e'))\n"
    "x = select(2, pcall(function() local y = nil + 1 end))\n"
    "x = select(2, xpcall(function() error(w) end, debug.traceback))\n"
    /* metamethods and to-be-closed variables */
    "local mt = {} mt.__index = function(_, k) return {k} end\n"
    "mt.__add = function(p, q) return setmetatable({p, q}, mt) end\n"
    "mt.__concat = function() return w .. 'c' end mt.__close = function() end\n"
    "mt.__call = function(_, ...) return {...} end\n"
    "local m = setmetatable({}, mt)\n"
    "x = m.key x = m + m x = m .. m x = m(1, 2)\n"
    "do local z <close> = setmetatable({}, mt) end\n"
    "for i = 1, 3 do local z <close> = setmetatable({}, mt) x = {i} end\n"
    /* the compiler */
    "x = load('local a, b = {}, {1, 2} return function(c) return a, c .. b '\n"
    "  .. 'end, \"' .. w .. '\", 1234567, function() goto l do local q = '\n"
    "  .. 'b end ::l:: return a end')\n"
    "x = load('syntax error here')\n"
    "x = load(string.dump(function() return {w, 1} end))\n"
    "x = load(function() return nil end)\n"
    /* coroutines: made here, run blind */
    "local co = coroutine.create(function(...)\n"
    "  mark() local y = {...} y = w .. 'co' coroutine.yield(y)\n"
    "  mark() y = {1, 2} y = string.rep(w, 40) deep(40) blind()\n"
    "end)\n"
    "blind() coroutine.resume(co, 1, 2, 3) mark()\n"
    "x = w .. 'between' blind() coroutine.resume(co) mark()\n"
    "local wr = coroutine.wrap(function() mark() local y = {} y[1] = {w .. 1}\n"
    "  local inner = coroutine.wrap(function() mark() local z = {w .. 2}\n"
    "    z.a = 1 z = string.rep(w, 50) blind() end)\n"
    "  blind() inner() mark() y = {w .. 3, 4} blind() end)\n"
    "blind() wr() mark() x = {w .. 4}\n"
    "co = coroutine.create(function() end)\n"
    "blind() coroutine.close(co) mark()\n"
    /* other ways to call a C function */
    "local function tailed() return mark() end tailed()\n"
    /* what verify.c wants to see */
    "checkframe()\n"
    "local function plain() checktail(0) return 1 end plain()\n"
    "local function tail() return plain2() end\n"
    "plain2 = function() checktail(1) return 1 end tail()\n"
    "blind()\n"
    "setmetatable({}, {__gc = function() checkfin() end})\n"
    "collectgarbage() collectgarbage()\n";
