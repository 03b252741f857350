#!/bin/bash
# pyverbs_sanitized.sh BUILD_DIR DEVICE LIBRARY[:LIBRARY]: rdma-core's own suite in one process, over a weft built with sanitizers,
# whose libraries these are. They must come first, so the preload is set behind weft run's back. The interpreter's own leaks are
# not looked for.
set -eu -o pipefail

build=$1 device=$2 sanitizers=$3
suite=/usr/share/doc/rdma-core/tests
[ -d "$suite" ] || { echo "$suite is missing: apt-get install rdma-core without the exclusion of documentation"; exit 77; }
work=$(mktemp -d)
finish() {
	WEFT_DIR=$work/weft "$build/bin/weft" down --force >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT
cp -r "$suite" "$work/tests"
find "$work/tests" -name '*.gz' -exec gunzip {} +
cd "$work"

preload=$sanitizers:$build/lib/weft/libweft-shim.so
export WEFT_DIR=$work/weft ASAN_OPTIONS=detect_leaks=0:exitcode=66 UBSAN_OPTIONS=print_stacktrace=1
status=0
timeout 900 "$build/bin/weft" run -- env LD_PRELOAD="$preload" /usr/bin/python3 tests/run_tests.py --dev "$device" -v \
	>"$work/out" 2>&1 || status=$?
grep -E '^Ran|^OK|^FAILED|(FAIL|ERROR)$' "$work/out" || true
if [ $status -ne 0 ] || grep -qE 'runtime error:|ERROR: AddressSanitizer' "$work/out"; then
	tail -n 60 "$work/out"
	exit 1
fi
# a suite that found no device would pass too
passed=$(grep -cE '(\.\.\. |^)ok$' "$work/out")
[ "$passed" -ge 120 ] || { echo "only $passed tests passed"; exit 1; }
