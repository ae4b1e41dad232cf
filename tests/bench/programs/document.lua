-- The document that the JSON libraries encode and decode.
local document = {}
for i = 1, 2000 do
  document[i] = {
    id = i, name = "item " .. i, price = i * 0.25, is_new = i % 3 == 0,
    tags = {"red", "tag-" .. i % 7, 'quoted "' .. i .. '"'},
    place = {row = i // 20, column = i % 20, note = "line\nand\ttab " .. i},
  }
end
return document
