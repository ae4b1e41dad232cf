---@meta tidemark
---
--- Annotations of the module for LuaLS; nothing here runs.  The manual page is
--- tidemark-lua(3).

---What can fail returns nil and a message; errors are raised for wrong
---arguments, and by `pop` without its `push`.
---@class tidemark
---@field version string
local tidemark = {}

---Options of the profiler, as a table or as the text that `TIDEMARK` has.
---@alias tidemark.Options string|table<string, string|number|boolean>

---Attaches this state in mid-life, which `require` has done; takes up again what
---`detach` has left.
---@param options? tidemark.Options without effect on a session that is open
---@return true? ok
---@return string? why
function tidemark.attach(options) end

---From here on this state is recorded no more.
---@return true? ok
---@return string? why
function tidemark.detach() end

---Recording is on.
---@param options? tidemark.Options of these `limit` and `targets` hold at once
---@return true? ok
---@return string? why
function tidemark.start(options) end

---@class tidemark.Row
---@field group string "": what is below no target
---@field target string
---@field source string "app.lua:12"
---@field kb number allocated, KiB
---@field rate number KiB per second of the run
---@field calls integer that allocated
---@field bytes integer allocated
---@field bytes_per_call integer
---@field peak integer bytes of the worst single call
---@field live_bytes integer held now
---@field blocks integer allocated
---@field died_young_bytes integer freed before they survived a collection

---Recording is off.  The rows that allocated most: targets when the program has
---named any, else functions.
---@param n? integer rows at most, 0 for all, default 30; if given they are printed
---@return tidemark.Row[]? rows
---@return string? why
function tidemark.stop(n) end

---All counters of things past are 0; what is alive stays.
---@return true? ok
---@return string? why
function tidemark.reset() end

---Writes a copy of the profile.
---@param name? string default: made of the time
---@return string? path
---@return string? why
function tidemark.save(name) end

---@class tidemark.Stats
---@field alloc_bytes integer
---@field alloc_blocks integer
---@field freed_bytes integer
---@field freed_blocks integer
---@field live_bytes integer
---@field live_blocks integer
---@field peak_bytes integer
---@field buffer_bytes integer
---@field unattributed_bytes integer
---@field before_bytes integer
---@field gc_cycles integer
---@field failed_blocks integer
---@field tier "exact"|"partial"|"public"
---@field tier_reason string

---Sums over this state.
---@return tidemark.Stats? stats
---@return string? why
function tidemark.stats() end

---The profile's file; nil when it is recorded in memory.
---@return string? path
---@return string? why
function tidemark.path() end

---@class tidemark.ReportOptions
---@field by? "line"|"function"|"stack"|"kind"|"group"|"target"
---@field sort? string as `tidemark report --sort`
---@field top? integer rows at most, 0 for all
---@field filter? string a POSIX extended regular expression
---@field columns? integer width of a text report

---A report on everything so far.
---@param format? "text"|"json"|"html"
---@param options? tidemark.ReportOptions
---@return string? report
---@return string? why
function tidemark.report(format, options) end

---A labelled point of the timeline; two of them can be compared.
---@param label string
---@return true? ok
---@return string? why
function tidemark.mark(label) end

---Most bytes that this state may hold: beyond that Lua says "not enough memory".
---@param bytes integer|string bytes, or a size such as "64M"; 0: no limit
---@return true? ok
---@return string? why
function tidemark.limit(bytes) end

---Puts functions into a group: one, or all in a table, in tables in it, in their
---metatables.  All closures of one source line are one function.
---@param group string
---@param what function|table
---@param name? string of the function, or what stands before names in the table
---@return integer? n functions named
---@return string? why
function tidemark.target(group, what, name) end

---Takes functions out of their groups, or gives up a group and its rules.
---@param what string|function|table
---@return integer|true|nil n functions; true for a group
---@return string? why
function tidemark.untarget(what) end

---@class tidemark.Patterns
---@field source? string of source files
---@field module? string of modules and C libraries
---@field function? string of names of functions

---Puts all functions that match into a group; patterns as those of fnmatch(3).
---@param group string
---@param patterns tidemark.Patterns
---@return true? ok
---@return string? why
function tidemark.rule(group, patterns) end

---Calls fn in a region: what it allocates stands below a frame "[region] NAME".
---@generic T
---@param name string
---@param fn fun(...): T
---@param ... any
---@return T ...
function tidemark.region(name, fn, ...) end

---A region of the function that calls this, up to `pop` or to its end.
---@param name string
---@return true? ok
---@return string? why
function tidemark.push(name) end

---Ends the region that was pushed last in this call of a function.
---@return string? name
---@return string? why
function tidemark.pop() end

---@class tidemark.GcStats
---@field HeapKb number
---@field PeakHeapKb number
---@field AllocKbPerSec number
---@field CyclesPerMin number
---@field Cycles integer
---@field LastReclaimKb number
---@field AvgReclaimKb number
---@field ReclaimedKb number

---@class tidemark.GcWatch
local GcWatch = {}

---@param now? number seconds
function GcWatch:sample(now) end

---@param now? number seconds
---@return tidemark.GcStats
function GcWatch:stats(now) end

---It counts no more; safe twice.
function GcWatch:close() end

---@class tidemark.GcWatchOptions
---@field window? number seconds that rates are of; default 5
---@field heap? fun(): number KiB in use: a sampled watcher
---@field clock? fun(): number seconds

---A watcher of the collector: exact, by the allocator's counters; sampled, when
---`heap` is given.
---@param options? tidemark.GcWatchOptions
---@return tidemark.GcWatch
function tidemark.gcwatch(options) end

return tidemark
