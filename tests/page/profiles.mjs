// profiles.mjs: the programs whose profiles are looked at, and the pages made
// of them.

import {execFileSync, spawnSync} from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const APP = `local kept = {}
local function keep(n)
  for i = 1, n do kept[#kept + 1] = {i, i} end
end
local function churn(n)
  for i = 1, n do local s = ("x"):rep(100) .. i end
end
local function shrinks(n)
  for i = 1, n do local t = {i, {}, {}} end
end
local co = coroutine.wrap(function()
  for i = 1, 20 do churn(50) coroutine.yield() end
end)
for i = 1, 20 do co() keep(100) shrinks(200) end
collectgarbage()
keep(1000)
local function old_only() return {1, 2, 3} end
for i = 1, 500 do old_only() end
`;

// Lines above, one function grown, one shrunk, one gone, one new.
const APP_LATER = `-- a comment on top
local unused = 1

${APP.replace("rep(100)", "rep(400)")
  .replace("{i, {}, {}}", "{i}")
  .replace("local function old_only() return {1, 2, 3} end\n" +
           "for i = 1, 500 do old_only() end\n",
           "local function new_only() return {1, 2, 3, 4} end\n" +
           "for i = 1, 500 do new_only() end\n")}`;

export const EVIL = "<img src=x onerror=hacked(1)>";

// Names and lines that would do something if they were not text.
const HOSTILE = Buffer.concat([Buffer.from(`
_ENV[${JSON.stringify(EVIL)}] = function() local t = {} return t end
_ENV["</script><script>hacked()"] = function() return {} end
_ENV["\\"'\`&quot;\\27[31m\\0\\7"] = function() return {} end
_ENV["\\xff\\xfe \\xc3\\x28"] = function() return {} end
for i = 1, 300 do
  local a = _ENV[${JSON.stringify(EVIL)}]()
  local b = _ENV["</script><script>hacked()"]()
  local c = _ENV["\\"'\`&quot;\\27[31m\\0\\7"]()
  local d = _ENV["\\xff\\xfe \\xc3\\x28"]()
end
local e = {} -- </script><script>hacked(2)</script> <img src=x onerror=hacked(3)>
local f = {} -- @DATA@ @JS@ @CSS@ \u202e reversed
-- ${"long ".repeat(2000)}
load("return {{}, {}}", "@</script><script>hacked(4)</script>")()
load("return {{}, {}}", "@" .. ("n"):rep(10000))()
load("return {{}, {}}", "=\\u{202e}\\u{2028}\\1\\2")()
`), Buffer.from([0x2d, 0x2d, 0xff, 0xfe, 0x80, 0x0a])]);

const GROUPS = `garbage function=churn
garbage function=shrinks
"kept <b>" function=keep source=*app.lua
empty function=nobody
`;

export class Maker {
  constructor({tidemark, folder, lua}) {
    Object.assign(this, {tidemark, folder, lua});
    fs.rmSync(folder, {recursive: true, force: true});
    fs.mkdirSync(folder, {recursive: true});
    this.env = {...process.env};
    for (const key of ["TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "NO_COLOR"])
      delete this.env[key];
  }

  path(name) {
    return path.join(this.folder, name);
  }

  call(...args) {
    return spawnSync(this.tidemark, args, {cwd: this.folder, env: this.env,
                                           maxBuffer: 1 << 29});
  }

  json(...args) {
    return JSON.parse(this.call(...args).stdout.toString());
  }

  run(script, text, profile, ...options) {
    // Written in the past, so that it is not younger than the run.
    fs.mkdirSync(path.dirname(this.path(script)), {recursive: true});
    fs.writeFileSync(this.path(script), text);
    fs.utimesSync(this.path(script), 1e9, 1e9);
    execFileSync(this.tidemark, ["run", "-o", profile, "--report", "none",
                                 ...options, "--", this.lua, script],
                 {cwd: this.folder, env: this.env, stdio: "pipe"});
  }

  runAll() {
    this.run("old/app.lua", APP, "old.tide");
    this.run("new/app.lua", APP_LATER, "new.tide");
    this.run(`"'<b>hostile.lua`, HOSTILE, "hostile.tide");
    fs.writeFileSync(this.path("groups.rules"), GROUPS);
    this.run("groups/app.lua", APP, "groups.tide", "--set",
             "targets=groups.rules");
  }
}
