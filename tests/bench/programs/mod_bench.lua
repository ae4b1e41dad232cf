-- A message loop inside prosody.  XML text goes in; stanzas are parsed, routed
-- by the server's core to an account that is not there, and its answers are
-- written as text.  With no messages it is prosody's start, and its end.
local new_stream = require "util.xmppstream".new
local n_messages = module:get_option_number("bench_messages", 0)
local host = "localhost"

module:set_global()

local function session_of(answers)
  return {
    type = "c2s", username = "ann", host = host, resource = "bench",
    full_jid = "ann@" .. host .. "/bench", notopen = true,
    send = function(stanza)
      answers.n = answers.n + 1
      answers.bytes = answers.bytes + #tostring(stanza)
    end,
  }
end

local callbacks = {default_ns = "jabber:client"}
function callbacks.streamopened(session) session.notopen = nil end
function callbacks.streamclosed() end
function callbacks.error(_, why) error(why) end
function callbacks.handlestanza(session, stanza)
  prosody.core_process_stanza(session, stanza)
end

local function loop()
  local answers = {n = 0, bytes = 0}
  local stream = new_stream(session_of(answers), callbacks)
  stream:feed("<stream:stream xmlns='jabber:client' " ..
    "xmlns:stream='http://etherx.jabber.org/streams'>")
  for i = 1, n_messages do
    stream:feed(string.format("<message to='bob%d@%s' id='m%d' type='chat'>" ..
      "<body>message %d &amp; more</body><active " ..
      "xmlns='http://jabber.org/protocol/chatstates'/></message>",
      i % 100, host, i, i))
  end
  print(answers.n, answers.bytes)
end

module:add_timer(0, function()
  loop()
  prosody.shutdown("done", 0)
end)
