#!/bin/bash
# What scripts/run-tests and scripts/tally say of tests that fail once, skip themselves, skip a part, or are not there.
# usage: tally.sh SOURCE_DIR
set -u
source=$1
work=$(mktemp -d /tmp/weft-tally-XXXXXX)
trap 'rm -r "$work"' EXIT
failures=0
mkdir "$work/build"

# once FILE TEXT: a test that fails with TEXT the first time
cat >"$work/once" <<'END'
#!/bin/sh
[ -e "$1" ] && exit 0
: >"$1"
echo "$2"
exit 1
END
chmod +x "$work/once"

# suite LINE...: the build's tests: name, program and arguments, each as CTest's file has it; and no state of earlier runs
suite() {
	rm -f "$work"/state.*
	printf '%s\n' "$@" >"$work/build/CTestTestfile.cmake"
}
once() { echo "add_test(\"$1\" \"$work/once\" \"$work/state.$2\" \"$3\")"; }
says() { echo "add_test(\"$1\" \"sh\" \"-c\" \"echo '$2'; exit ${3-0}\")
set_tests_properties(\"$1\" PROPERTIES SKIP_RETURN_CODE 77)"; }

# expect STATUS LINE [TEXT]: how run-tests ends, its last line, and what else it prints
expect() {
	local out status
	out=$("$source/scripts/run-tests" "$work/build" "$work/results.xml" 2>&1)
	status=$?
	if [ $status != "$1" ] || [ "$(tail -n 1 <<<"$out")" != "$2" ] || [[ $out != *"${3-}"* ]]; then
		printf 'FAILED: status %s, expected %s: "%s" "%s" of:\n%s\n' "$status" "$1" "$2" "${3-}" "$out"
		failures=$((failures + 1))
	fi
}

# only a pair of other people's programs may have missed each other once
suite "$(once unit/a 1 'not met: x')"
expect 1 '0 passed, 1 failed, 0 skipped'
suite "$(once abi/perftest/ib_write_bw-cm@weft0 1 'a data race')"
expect 1 '0 passed, 1 failed, 0 skipped'
suite "$(once abi/perftest/ib_write_bw-cm@weft0-tsan 1 'not met: x')"
expect 1 '0 passed, 1 failed, 0 skipped'
suite "$(once abi/perftest/ib_write_bw-cm@weft0 1 'not met: x')" "$(once abi/pingpong/rc-plain@weft1@user 2 'not met: x')"
expect 0 '2 passed, 0 failed, 0 skipped, 2 at the second attempt' \
	'second attempt: 2: abi/perftest/ib_write_bw-cm@weft0 abi/pingpong/rc-plain@weft1@user'
suite "$(once abi/pingpong/a@weft0 1 'not met: x')" "$(once abi/pingpong/b@weft0 2 'not met: x')" \
	"$(once abi/pingpong/c@weft0 3 'not met: x')"
expect 1 '0 passed, 3 failed, 0 skipped'
cat >"$work/many.xml" <<'END'
<testsuite>
<testcase name="a" status="run" second="1">
</testcase>
<testcase name="b" status="run" second="1">
</testcase>
<testcase name="c" status="run" second="1">
</testcase>
</testsuite>
END
if "$source/scripts/tally" "$work/many.xml" >"$work/out"; then
	echo "FAILED: three second attempts pass: $(cat "$work/out")"
	failures=$((failures + 1))
fi

# what is not run is told
suite "$(says unit/a 'SKIP: no bwrap here' 77)" "$(says unit/b 'part skipped: why')" "$(says unit/c '[  SKIPPED ] third')" \
	"$(says unit/d fine)"
expect 0 '3 passed, 0 failed, 3 skipped' 'skipped: 1 (no bwrap here): unit/a'
expect 0 '3 passed, 0 failed, 3 skipped' 'unit/b (1)'
suite
expect 1 '0 passed, 1 failed, 0 skipped'
exit $((failures != 0))
