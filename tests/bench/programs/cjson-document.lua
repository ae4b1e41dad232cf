-- cjson: JSON in C; every table and string of the document is made through
-- the C interface of Lua.
local json = require "cjson"
local document = require "document"
local n = tonumber((...)) or 150

local size = 0
for _ = 1, n do
  local text = json.encode(document)
  size = size + #text
  document = json.decode(text)
end
print(#document, document[2000].place.note, size > 0)
