#!/bin/sh
# Real programs of Debian 13, where apache, haproxy, ncat, nmap, tshark and
# highlight have Lua 5.4: in a tree of its own, to which chroot goes.  Needs root.
# Prints TAP.
#
# usage: trixie.sh FOLDER BUILD [NAME...]
#
# FOLDER  gets the tree; kept for the next time
# BUILD   a build directory: its command and library are copied in
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)/root
build=$(cd "$2" && pwd)
shift 2
packages=lua5.4,lighttpd,lighttpd-modules-lua,haproxy,nmap,highlight,python3
packages=$packages,procps,libunwind8,zlib1g,libncursesw6,libdw1t64,libjansson4
packages=$packages,tshark,apache2,ncat
names=${*:-lua5.4 lighttpd lighttpd-workers haproxy haproxy-limit
  haproxy-master nmap ncat highlight tshark apache}

[ "$(cat "$root/whole" 2>/dev/null)" = "$packages" ] || {
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase --include=$packages trixie "$root" >&2
  echo "$packages" >"$root/whole"
}
at=$root/opt/tidemark
rm -rf "$at"
mkdir -p "$at/hosts"
cp -L "$build/tidemark" "$build/libtidemark.so" "$at"
cp "$here"/*.py "$at/hosts"

# Mounts end with the namespace.
# shellcheck disable=SC2016,SC2086
exec unshare --mount sh -c 'root=$1; shift
  mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" &&
  exec chroot "$root" python3 /opt/tidemark/hosts/real.py \
    --tidemark /opt/tidemark/tidemark "$@"' sh "$root" $names
