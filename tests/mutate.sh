#!/bin/bash
# scripts/mutate over a toy project: a mutant that a test kills, one that survives, one that does not apply, one that does not
# compile, one whose test only skips, one without a test, and a test that fails without any mutant. What a failed test leaves is
# ended.
# usage: mutate.sh SOURCE_DIR
set -u
toy=$(mktemp -d /tmp/weft-mutate.XXXXXX)
trap 'rm -rf "$toy"' EXIT
failures=0

# expect STATUS TEXT ARGUMENT...: mutate exits so, and says so.
expect() {
	local want=$1 text=$2 got
	shift 2
	out=$(scripts/mutate "$@" 2>&1)
	got=$?
	[ "$got" = "$want" ] || { echo "FAILED: 'mutate $*' exits with $got, not $want: $out"; failures=1; }
	case $out in *"$text"*) ;; *) echo "FAILED: 'mutate $*' does not say '$text': $out"; failures=1 ;; esac
}

# mutant NAME TESTS OLD NEW: the line OLD of src/sum.c becomes NEW.
mutant() {
	{
		printf '# the sum is wrong: %s\n# tests: %s\n' "$1" "$2"
		printf '%s\n' '--- a/src/sum.c' '+++ b/src/sum.c' '@@ -1,4 +1,4 @@' ' int sum(int a, int b)' ' {' "-$3" "+$4" ' }'
	} >"tests/mutants/$1.patch"
}

cd "$toy" && git init -q . && mkdir -p scripts src tests/mutants && cp "$1/scripts/mutate" "$1/scripts/tally" scripts/ || exit 1
echo /build-mutants/ >.gitignore
printf 'int sum(int a, int b)\n{\n\treturn a + b;\n}\n' >src/sum.c
printf 'int sum(int a, int b);\nint main(void)\n{\n\treturn sum(2, 0) != 2;\n}\n' >tests/sum_test.c
echo '"$1" || { setsid sleep 1000 & echo $! >left; exit 1; }' >tests/leaves.sh
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(toy C)
enable_testing()
add_executable(sum_test tests/sum_test.c src/sum.c)
add_test(NAME unit/sum_test COMMAND sum_test)
add_test(NAME unit/skips COMMAND sh -c "exit 77")
set_tests_properties(unit/skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME e2e/leaves COMMAND sh ${CMAKE_SOURCE_DIR}/tests/leaves.sh $<TARGET_FILE:sum_test>)
END
sum=$'\treturn a + b;'
mutant killed unit/sum_test "$sum" $'\treturn b;'
mutant survivor 'unit/sum_test|unit/skips' "$sum" $'\treturn a - b;'
mutant gone unit/sum_test $'\treturn a * b;' "$sum"
mutant broken unit/sum_test "$sum" $'\treturn c;'
mutant skipped unit/skips "$sum" $'\treturn b;'
mutant leaves e2e/leaves "$sum" $'\treturn b;'
mutant untested unit/other "$sum" $'\treturn b;'
git add . && git -c user.name=toy -c user.email=toy commit -qm toy || exit 1

expect 1 "gone: the sum is wrong: gone [unit/sum_test]: DOES NOT APPLY" --list
expect 0 "1 mutants, 0 do not apply" --list survivor
expect 0 "killed: killed by unit/sum_test (status 1)" killed
expect 0 "skipped: skipped" killed skipped
expect 0 "killed by e2e/leaves" leaves
left=$(cat build-mutants/0/build/left) || failures=1
! grep -qz ^WEFT_MUTATE_TEST= "/proc/$left/environ" 2>/dev/null || { echo "FAILED: what e2e/leaves left runs on"; failures=1; }
expect 0 "1 mutants in" --part 3/7
expect 1 "survivor: SURVIVED unit/sum_test" --junit build-mutants/mutants.xml
for text in "gone: does not apply" "broken: does not compile" "untested: no such test" \
	"SURVIVED: survivor: the sum is wrong: survivor" "7 mutants in"; do
	case $out in *"$text"*) ;; *) echo "FAILED: a run of all does not say '$text': $out"; failures=1 ;; esac
done
total=$(scripts/tally build-mutants/mutants.xml | tail -n 1)
[ "$total" = "2 passed, 4 failed, 1 skipped" ] || { echo "FAILED: tally of it: $total"; failures=1; }
# what is not committed counts: the test that would notice
printf 'int sum(int a, int b);\nint main(void)\n{\n\treturn sum(2, 1) != 3;\n}\n' >tests/sum_test.c
expect 0 "killed by unit/sum_test" survivor
# and every mutant is taken back
expect 0 "killed by unit/sum_test" killed survivor
printf 'int main(void)\n{\n\treturn 3;\n}\n' >tests/sum_test.c
expect 1 "unit/sum_test: status 3 without a mutant" killed
# which costs no other mutant its turn
expect 1 "killed: not tried fails without it: unit/sum_test" killed skipped
case $out in *"skipped: skipped"*) ;; *) echo "FAILED: another mutant is not tried: $out"; failures=1 ;; esac
exit $failures
