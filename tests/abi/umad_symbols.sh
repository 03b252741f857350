#!/bin/sh
# umad_symbols.sh STOCK OURS [LAYOUT_OF_OURS LAYOUT_OF_STOCK]: libibumad.so.3 of weft exports each name@@version of the stock
# library, and of its own weft_ names alone; the SONAME is the same. The two programs, if given, print the same.
set -eu
stock=$1 ours=$2
status=0
dump() { nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }' | sort; }
all=$(dump "$stock" | wc -l)
[ "$all" -ge 39 ] || { echo "only $all symbols in $stock"; status=1; }
for name in $(dump "$stock"); do
	dump "$ours" | grep -qxF "$name" || { echo "$name is missing"; status=1; }
done
for name in $(dump "$ours"); do
	case $name in *@@WEFT_*) continue ;; esac
	dump "$stock" | grep -qxF "$name" || { echo "$name is none of the stock library's"; status=1; }
done
soname=$(readelf -d "$ours" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libibumad.so.3 ] || { echo "SONAME is $soname"; status=1; }
if [ $# -gt 2 ]; then
	[ "$("$3")" = "$("$4")" ] || { echo "structures differ:"; "$3"; echo; "$4"; status=1; }
else
	echo "part skipped: no header of libibumad when the build was configured"
fi
exit $status
