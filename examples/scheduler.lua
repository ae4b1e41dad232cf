-- A script for scheduler: three tasks that share the time.
local function worker(name, turns)
  return function()
    local log = {}
    for turn = 1, turns do
      log[#log + 1] = string.format("%s: turn %d of %d", name, turn, turns)
      coroutine.yield()
    end
    print(name, #log)
  end
end

spawn(worker("reader", 30))
spawn(worker("parser", 60))
spawn(function()
  spawn(worker("late", 10))  -- a task may start another one
  for _ = 1, 5 do coroutine.yield() end
end)
