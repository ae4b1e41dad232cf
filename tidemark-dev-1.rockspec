-- luarocks make: builds with meson and installs the module, its library and
-- the command.  Needs meson, ninja and what ./dev setup installs.
rockspec_format = "3.0"
package = "tidemark"
version = "dev-1"
source = {
  url = "git+file://.",
}
description = {
  summary = "allocation profiler for Lua 5.4",
  detailed = [[
Counts every byte that a Lua program allocates and charges it to the full Lua
call stack, down to the line, in every coroutine.]],
  license = "MIT",
}
supported_platforms = {"linux"}
dependencies = {
  "lua >= 5.4, < 5.5",
}
build = {
  type = "command",
  -- TIDEMARK_ROCK_BUILD names a folder that meson has set up already.
  build_command = [[
    set -e; b="${TIDEMARK_ROCK_BUILD:-build-rock}"
    [ -f "$b/build.ninja" ] || meson setup "$b" --buildtype=release
    ninja -C "$b" tools/tidemark_lua.so tools/tidemark_report.so \
      tools/libtidemark.so.0 tools/tidemark
    mkdir -p rock
    cp "$b/tools/tidemark_lua.so" rock/tidemark.so
    cp "$b/tools/tidemark_report.so" "$b/tools/libtidemark.so.0" \
      "$b/tools/tidemark" rock]],
  install = {
    lib = {"rock/tidemark.so", "rock/tidemark_report.so",
           "rock/libtidemark.so.0"},
    bin = {"rock/tidemark"},
  },
}
