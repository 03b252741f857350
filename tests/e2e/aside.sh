#!/bin/bash
# aside.sh SCRIPT BIN COMMAND...: runs COMMAND SCRIPT BIN. Where an ordinary user (65534) cannot reach the checkout, as below
# root's home, SCRIPT and BIN are copies, with what scripts use beside them, which go afterwards.
set -u
script=$1 bin=$2
shift 2
reachable() { setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$script" -a -x "$bin/weft"; }
if [ "$(id -u)" != 0 ] || reachable; then
	exec "$@" "$script" "$bin"
fi
build=${bin%/bin} copy=$(mktemp -d /tmp/weft-aside-XXXXXX) || exit 1
trap 'rm -r "$copy"' EXIT
trap 'exit 1' TERM INT HUP
chmod 755 "$copy"
mkdir -p "$copy/build/tests/e2e" "$copy/tests"
cp -r "${script%/*}" "$copy/tests/e2e"
cp -r "$bin" "$build/lib" "$copy/build"
cp "$build"/tests/e2e/e2e_* "$copy/build/tests/e2e"
chmod -R a+rX "$copy"
"$@" "$copy/tests/e2e/${script##*/}" "$copy/build/bin"
