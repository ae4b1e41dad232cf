-- JSON encoded and decoded by plain Lua: strings cut out of a text and joined
-- again, tables that grow field by field.
local n = tonumber((...)) or 130

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t"}
local unescapes = {n = "\n", t = "\t"}

-- ---- encode ---------------------------------------------------------------

local encode

local function quoted(text)
  return '"' .. text:gsub('["\\\n\t]', escapes) .. '"'
end

local function encode_array(list, out)
  out[#out + 1] = "["
  for i, value in ipairs(list) do
    if i > 1 then out[#out + 1] = "," end
    encode(value, out)
  end
  out[#out + 1] = "]"
end

local function encode_object(object, out)
  local keys = {}
  for key in pairs(object) do keys[#keys + 1] = key end
  table.sort(keys)
  out[#out + 1] = "{"
  for i, key in ipairs(keys) do
    if i > 1 then out[#out + 1] = "," end
    out[#out + 1] = quoted(key) .. ":"
    encode(object[key], out)
  end
  out[#out + 1] = "}"
end

function encode(value, out)
  if type(value) == "table" then
    return (value[1] ~= nil and encode_array or encode_object)(value, out)
  end
  out[#out + 1] = type(value) == "string" and quoted(value) or tostring(value)
end

-- ---- decode: each returns a value and where the text goes on ---------------

local decode

local function decode_string(text, at)
  local stop = at + 1
  while true do
    local found = text:find('["\\]', stop)
    if text:byte(found) == 34 then
      local inner = text:sub(at + 1, found - 1)
      return inner:gsub("\\(.)", function(c) return unescapes[c] or c end),
        found + 1
    end
    stop = found + 2
  end
end

local function decode_array(text, at)
  local list = {}
  at = at + 1
  while text:byte(at) ~= 93 do
    list[#list + 1], at = decode(text, at)
    if text:byte(at) == 44 then at = at + 1 end
  end
  return list, at + 1
end

local function decode_object(text, at)
  local object = {}
  at = at + 1
  while text:byte(at) ~= 125 do
    local key, after = decode_string(text, at)
    object[key], at = decode(text, after + 1)
    if text:byte(at) == 44 then at = at + 1 end
  end
  return object, at + 1
end

local words = {["true"] = true, ["false"] = false}

function decode(text, at)
  local first = text:byte(at)
  if first == 123 then return decode_object(text, at) end
  if first == 91 then return decode_array(text, at) end
  if first == 34 then return decode_string(text, at) end
  local word = text:match("^[%w.+-]+", at)
  local value = words[word]
  if value == nil then value = tonumber(word) end
  return value, at + #word
end

-- ---- the document ----------------------------------------------------------

local document = {}
for i = 1, 400 do
  document[i] = {
    id = i, name = "item " .. i, price = i * 0.25, is_new = i % 3 == 0,
    tags = {"red", "tag-" .. i % 7, 'quoted "' .. i .. '"'},
    place = {row = i // 20, column = i % 20, note = "line\nand\ttab " .. i},
  }
end

local size = 0
for _ = 1, n do
  local out = {}
  encode(document, out)
  local text = table.concat(out)
  size = size + #text
  document = decode(text, 1)
end
print(size, #document, document[400].place.note)
