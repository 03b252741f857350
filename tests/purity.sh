#!/bin/sh
# The pure rooms reference no clock, socket, file, thread, environment or unseeded random number: every undefined symbol of
# their archives is defined in one of them, or is a function of memory or strings, or is the compiler's.
# usage: purity.sh ARCHIVE...
set -eu

allowed='^(mem(cpy|move|set|cmp|chr)|str(len|nlen|cmp|ncmp|chr|rchr|spn|cspn|str|sep|cpy|to(l|ul|ull))'
allowed="$allowed"'|__strcpy_chk|__isoc[0-9]*_.*|malloc|calloc|realloc|free|abort|v?snprintf|__v?snprintf_chk'
allowed="$allowed"'|__mem(cpy|move|set)_chk|qsort|bsearch|__errno_location|__assert_fail|_GLOBAL_OFFSET_TABLE_'
allowed="$allowed"'|__stack_chk_fail|__(asan|ubsan|tsan|sanitizer|sancov|llvm|gcov|aarch64)_.*)$'

defined=$(mktemp)
trap 'rm -f "$defined"' EXIT
nm --defined-only "$@" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$defined"

impure=$(nm -u -A "$@" 2>/dev/null | awk -v defined="$defined" -v allowed="$allowed" '
	BEGIN { while ((getline name < defined) > 0) ours[name] = 1 }
	NF > 2 && !($NF in ours) && $NF !~ allowed { print $NF, $1 }' | sort -u)

if [ -n "$impure" ]; then
	echo "impure references (symbol, where):" >&2
	echo "$impure" >&2
	exit 1
fi
