local M = {}
function M.think(n)
  local plan = {}
  for i = 1, n do
    plan[i] = {n = i}
  end
  return plan
end
return M
