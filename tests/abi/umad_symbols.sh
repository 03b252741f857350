#!/bin/sh
# umad_symbols.sh STOCK OURS [LAYOUT_OF_OURS LAYOUT_OF_STOCK]: libibumad.so.3 of weft exports each name@@version of the stock
# library, and of its own weft_ names alone, but for nodes that later releases of rdma-core have; the SONAME is the same. The two
# programs, if given, print the same.
set -eu
stock=$1 ours=$2
status=0
later="IBUMAD_1.3 IBUMAD_1.4"
has_node() { nm -D --defined-only "$1" | awk '$2 == "A" { print $3 }' | grep -qxF "$2"; }
dump() { nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }' | sort; }
all=$(dump "$stock" | wc -l)
[ "$all" -ge 39 ] || { echo "only $all symbols in $stock"; status=1; }
for name in $(dump "$stock"); do
	dump "$ours" | grep -qxF "$name" || { echo "$name is missing"; status=1; }
done
for name in $(dump "$ours"); do
	case $name in *@@WEFT_*) continue ;; esac
	for node in $later; do
		[ "${name#*@@}" != "$node" ] || has_node "$stock" "$node" || continue 2
	done
	dump "$stock" | grep -qxF "$name" || { echo "$name is none of the stock library's"; status=1; }
done
for name in umad_open_smi_port@@IBUMAD_1.3 umad_get_smi_gsi_pairs@@IBUMAD_1.4 umad_get_smi_gsi_pair_by_ca_name@@IBUMAD_1.4; do
	dump "$ours" | grep -qxF "$name" || { echo "$name, of rdma-core 56, is missing"; status=1; }
done
soname=$(readelf -d "$ours" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libibumad.so.3 ] || { echo "SONAME is $soname"; status=1; }
if [ $# -gt 2 ]; then
	[ "$("$3")" = "$("$4")" ] || { echo "structures differ:"; "$3"; echo; "$4"; status=1; }
else
	echo "part skipped: no header of libibumad when the build was configured"
fi
exit $status
