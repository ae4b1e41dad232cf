-- dkjson: JSON in Lua, encoded and decoded, without LPeg.
local json = require "dkjson"
local document = require "document"
local n = tonumber((...)) or 12

local size = 0
for _ = 1, n do
  local text = json.encode(document, {keyorder = {"id", "name", "tags"}})
  size = size + #text
  document = json.decode(text)
end
print(#document, document[2000].place.note, size > 0)
