#!/bin/bash
# setup.sh PROJECT: what is missing is installed for whoever asked for that, and weft can be built without its tests.
# A dpkg-query that knows no package and an apt-get that only notes its calls stand in for Debian's.
set -u
project=$1
dir=$(mktemp -d /tmp/weft-setup.XXXXXX) || exit 1
trap 'rm -r "$dir"' EXIT
failures=0
fail() {
	echo "FAILED: $*"
	failures=1
}
printf '#!/bin/sh\nexit 1\n' >"$dir/dpkg-query"
printf '#!/bin/sh\necho "$@" >>%s/calls\n' "$dir" >"$dir/apt-get"
printf '#!/bin/sh\nshift\nexec "$@"\n' >"$dir/sudo"	# sudo -n COMMAND
chmod +x "$dir"/*
setup() { PATH="$dir:$PATH" "$project/scripts/setup" "$@" </dev/null 2>&1; }

out=$(setup --ask build) && fail "setup --ask goes on without packages: $out"
case $out in *"packages are missing: "*libjansson-dev*"next: make deps"*) ;; *) fail "setup --ask says: $out" ;; esac
case $out in *cmocka*) fail "who builds weft needs cmocka: $out" ;; esac
[ ! -e "$dir/calls" ] || fail "setup --ask installs without an answer: $(cat "$dir/calls")"
out=$(PATH="$dir:$PATH" make -C "$project" all </dev/null 2>&1) && fail "make goes on without packages: $out"
[ ! -e "$dir/calls" ] || fail "make installs without an answer: $(cat "$dir/calls")"
setup build demo test >/dev/null || fail "setup without --ask fails"
grep -q '^-q .*install .*libcmocka-dev' "$dir/calls" || fail "setup without --ask installs nothing: $(cat "$dir/calls")"

if command -v cmake >/dev/null && command -v ninja >/dev/null; then
	cmake -S "$project" -B "$dir/build" -G Ninja -DWEFT_TESTS=OFF >"$dir/log" 2>&1 || fail "without tests: $(cat "$dir/log")"
	targets=$(ninja -C "$dir/build" -t targets all)
	grep -q '^bin/weft:' <<<"$targets" || fail "no weft among the targets"
	grep -q '_test[:.]' <<<"$targets" && fail "tests among the targets: $(grep '_test[:.]' <<<"$targets" | head -n 3)"
fi
exit $failures
