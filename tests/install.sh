#!/bin/bash
# install.sh PROJECT BUILD: make install puts a weft into place that runs there, and make uninstall removes every file of it. The
# list of what is installed is the test's own: BUILD's may be root's, and names what somebody installed from here.
set -u
project=$1 build=$2
failed=0
fail() { echo "FAILED: $*"; failed=1; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "${dir:?}"' EXIT
mkdir "$dir/build"
cp "$project/Makefile" "$dir"
ln -s "$build/bin" "$dir/build/bin"
sed "s#file(WRITE \"$build/#file(WRITE \"$dir/build/#" "$build/cmake_install.cmake" >"$dir/build/cmake_install.cmake"
! grep "file(WRITE \"$build/" "$dir/build/cmake_install.cmake" || exit 1
place() { make -s -C "$dir" "$1" PREFIX=/usr DESTDIR="$dir/root" >"$dir/log" 2>&1 || fail "make $1: $(cat "$dir/log")"; }
place install
for file in bin/weft bin/weftd lib/weft/libibverbs.so.1 lib/weft/libibumad.so.3 \
		lib/weft/libweft-shim.so include/weft/weft.h share/man/man1/weft.1; do
	[ -e "$dir/root/usr/$file" ] || fail "no $file is installed"
done
"$dir/root/usr/bin/weft" --version | grep -q '^weft ' || fail "what is installed does not run"
[ "$(wc -l <"$dir/build/install_manifest.txt")" -gt 6 ] || fail "make install leaves no list of what it installed"
place uninstall
left=$(find "$dir/root" ! -type d)
[ -z "$left" ] || fail "make uninstall leaves $left"
exit $failed
