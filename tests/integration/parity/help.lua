-- What the programs of this folder share: checks that parity.py reads, bytes
-- by Lua's own count, rows of reports.
local M = {}

function M.check(is_ok, name, why)
  print(("%s\t%s\t%s"):format(is_ok and "ok" or "not ok", name,
                              tostring(why):gsub("%s+", " ")))
  return is_ok
end

function M.equal(is, should, name)
  return M.check(is == should, name, tostring(is) .. " is not " ..
                 tostring(should))
end

-- Bytes that a call of f makes the heap grow, by Lua's own count.  The
-- collector must be stopped.
function M.grown(f, ...)
  local before = collectgarbage("count")
  f(...)
  return math.tointeger((collectgarbage("count") - before) * 1024)
end

-- Values of keys of JSON rows that stand on lines of their own: enough for
-- what reports print.
function M.rows(json, list)
  local rows = {}
  local text = json:match('\n"' .. list .. '": *(%b[])')
  for line in (text or ""):gmatch("[^\n]+") do
    local row = {}
    for key, value in line:gmatch('"([%w_]+)": *"?([^",{}]*)') do
      row[key] = tonumber(value) or value
    end
    if next(row) then
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- The row of a target; nil: there is none.
function M.target(rows, group, name)
  for _, row in ipairs(rows) do
    if row.group == group and row.target == name then
      return row
    end
  end
end

return M
