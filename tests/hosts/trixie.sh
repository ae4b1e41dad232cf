#!/bin/sh
# Real programs of Debian 13, where haproxy, nmap and highlight have Lua 5.4: in
# a tree of its own, to which chroot goes.  Needs root.  Prints TAP.
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
packages=$packages,procps,libunwind8,zlib1g
names=${*:-lua5.4 lighttpd lighttpd-workers haproxy haproxy-limit
  haproxy-master nmap highlight}

[ -e "$root/whole" ] || {
  debootstrap --variant=minbase --include=$packages trixie "$root" >&2
  touch "$root/whole"
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
