-- A script for embed: words by their letters, as a small index.
local index = {}
local words = {...}
if #words == 0 then words = {"tide", "edit", "moon", "mono", "diet"} end

for round = 1, 200 do
  for _, word in ipairs(words) do
    local letters = {}
    for c in word:gmatch(".") do letters[#letters + 1] = c end
    table.sort(letters)
    local key = table.concat(letters)
    index[key] = index[key] or {}
    index[key][word] = round
  end
end

for key, group in pairs(index) do
  local n = 0
  for _ in pairs(group) do n = n + 1 end
  print(key, n)
end
