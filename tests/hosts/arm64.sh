#!/bin/sh
# The cases on aarch64: built with Debian's cross compiler, run by qemu-user.
# Prints TAP.
#
# usage: arm64.sh FOLDER TIDEMARK
#
# FOLDER    gets Debian's packages for arm64, unpacked (not installed), and the
#           build; kept for the next time
# TIDEMARK  the command, of this machine's own architecture
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
tidemark=$2
root=$folder/root
packages="libc6 libc6-dev libgcc-s1 libcrypt1 linux-libc-dev lua5.4
  liblua5.4-0 liblua5.4-dev libxxhash0 libxxhash-dev libjansson4
  libjansson-dev libreadline8 libtinfo6"

# apt with an architecture and folders of its own, so that nothing of this
# machine changes.
arm_apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o Dir::State="$folder/state" -o Dir::State::status="$folder/status" \
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root "$@"
}

unpack() {
  mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" \
    "$folder/debs" "$root"
  : >"$folder/status"
  arm_apt update
  cd "$folder/debs"
  # shellcheck disable=SC2086
  arm_apt download $packages
  for file in *.deb; do
    dpkg -x "$file" "$root"
  done
  [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
}

write_cross_file() {
  cat >"$folder/cross.ini" <<END
[binaries]
c = ['aarch64-linux-gnu-gcc', '--sysroot=$root']
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
objcopy = 'aarch64-linux-gnu-objcopy'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '$root']
[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/aarch64-linux-gnu/pkgconfig'
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
}

build() {
  [ -f "$folder/b/build.ninja" ] ||
    meson setup "$folder/b" "$here" --cross-file "$folder/cross.ini" \
      -Dhtml=disabled -Dunwind=disabled -Dcheck=basic
  meson compile -C "$folder/b" mlua_api mlua_stripped \
    tidemark:shared_library
}

[ -x "$root/usr/bin/lua5.4" ] || unpack >&2
write_cross_file
build >&2

# The interpreter of Debian under the preload library, as one command.
cat >"$folder/lua5.4" <<END
#!/bin/sh
exec qemu-aarch64 -L '$root' -E LD_PRELOAD='$folder/b/libtidemark.so' \\
  '$root/usr/bin/lua5.4' "\$@"
END
sed 's,usr/bin/lua5.4,../b/tests/integration/mlua_stripped,' \
  "$folder/lua5.4" >"$folder/mlua_stripped"
chmod +x "$folder/lua5.4" "$folder/mlua_stripped"

status=0
cases=$here/tests/integration/cases.py
echo "# the C interface"
python3 "$cases" --tidemark "$tidemark" --direct -- \
  qemu-aarch64 -L "$root" "$folder/b/tests/integration/mlua_api" || status=1
echo "# Debian's interpreter, patched by the preload library"
python3 "$cases" --tidemark "$tidemark" --direct -- "$folder/lua5.4" || status=1
echo "# an interpreter without names"
python3 "$cases" --tidemark "$tidemark" --direct --sniff -- \
  "$folder/mlua_stripped" || status=1
exit $status
