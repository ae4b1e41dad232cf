-- N queens with a fresh table at every step: deep recursion, tables that grow.
local n = tonumber((...)) or 8

local function fits(board, column)
  local row = #board + 1
  for r, c in ipairs(board) do
    if c == column or math.abs(c - column) == row - r then return false end
  end
  return true
end

local function extended(board, column)
  local new = {}
  for i = 1, #board do new[i] = board[i] end
  new[#new + 1] = column
  return new
end

local function solve(board)
  if #board == n then return 1 end
  local found = 0
  for column = 1, n do
    if fits(board, column) then found = found + solve(extended(board, column)) end
  end
  return found
end

local total = 0
for _ = 1, 250 do total = total + solve({}) end
print(total)
