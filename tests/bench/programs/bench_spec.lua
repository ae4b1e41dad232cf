-- A suite for busted: many small tests with values compared in depth.
local n = 2300

describe("a table of squares", function()
  local squares
  before_each(function()
    squares = {}
    for i = 1, 20 do squares[i] = i * i end
  end)

  for i = 1, n do
    it("knows number " .. i, function()
      local k = i % 20 + 1
      assert.are.equal(k * k, squares[k])
      assert.are.same({k, {k * k}}, {k, {squares[k]}})
      assert.has_error(function() error("at " .. i, 0) end, "at " .. i)
    end)
  end
end)
