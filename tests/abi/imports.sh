#!/bin/bash
# What weft loads into programs: imports.sh LIBRARY... It takes nothing from outside but libc, whose names a program leaves alone;
# calls its own functions and not those of the program which have the same name; exports nothing but what it stands for, and is
# quickly loaded.
set -u -o pipefail
libc=$(ldconfig -p 2>/dev/null | sed -n 's/.*libc\.so\.6 .*=> //p' | head -1)
[ -n "$libc" ] || libc=$(/sbin/ldconfig -p | sed -n 's/.*libc\.so\.6 .*=> //p' | head -1)
status=0

complain() {
	[ -z "$2" ] && return
	echo "$1: "$2
	status=1
}

for library; do
	name=${library##*/}
	complain "$name needs libraries" "$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
		grep -v '^libc\.so\.6$\|^ld-linux')"
	complain "$name imports" "$(nm -D --undefined-only "$library" | awk '$1 == "U" { print $2 }' | grep -v '@GLIBC_')"
	exports=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
	complain "$name calls what it exports by way of the program" "$(readelf -Wr "$library" |
		awk '/JUMP_SLO|GLOB_DAT/ { sub(/@.*/, "", $5); print $5 }' | sort -u | comm -12 - <(echo "$exports"))"
	# what it costs to load: the loader maps each segment by a call, and looks up all names of a library that binds at once
	complain "$name binds all names when it is loaded" "$(readelf -dW "$library" | grep -w NOW)"
	complain "$name has many segments" "$(readelf -lW "$library" | awk '$1 == "LOAD" { n++ } END { if (n > 2) print n }')"
	case $name in
	libibverbs*) ;;	# abi/symbols compares it with the stock library
	*) complain "$name exports what libc has not" "$(nm -D --defined-only "$libc" |
		awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u | comm -13 - <(echo "$exports"))" ;;
	esac
	echo "$name: $(echo "$exports" | wc -l) exports"
done
exit $status
