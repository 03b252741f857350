#!/bin/sh
# stock.sh STOCK_LIBRARY MAP OUT_C OUT_MAP
# The stock library's default symbols that MAP does not have: the providers' private node, whose number changes between
# releases of rdma-core, and what newer releases add. OUT_MAP is MAP with their nodes, OUT_C has an entry for each that
# refuses, so that Debian's providers load and stay inert and programs linked BIND_NOW start.
set -eu
stock=$1 map=$2 out_c=$3 out_map=$4

# implemented in query.c and sysfs.c
real=" ibv_query_gid_type ibv_read_ibdev_sysfs_file "

missing=$(nm -D --defined-only --with-symbol-versions "$stock" | awk -v map="$map" '
	BEGIN { while ((getline line < map) > 0) if (line ~ /^\t\t[a-z_0-9]*;$/) { gsub(/[\t;]/, "", line); known[line] = 1 } }
	{ n = split($3, at, "@@") }
	n == 2 && at[1] != at[2] && !(at[1] in known) { print at[2], at[1], $2 }' | sort)

{
	echo '/* Made by src/abi/verbs/stock.sh: entries of the stock library that are refused. */'
	echo '#include <errno.h>'
	echo '#include <stddef.h>'
	echo '#define EXPORT __attribute__((visibility("default")))'
	echo "$missing" | while read -r node name type; do
		case $real in *" $name "*) continue ;; esac
		case $type:$name in
		[BDRSVbdrs]:*)
			echo "EXPORT char $name;" ;;
		*:*_register_driver_*)
			echo "EXPORT void $name(void); void $name(void) { }" ;;
		*:*_open_device|*:*_alloc_context|*:ibv_import_*|*:ibv_alloc_*|*:ibv_create_*|*:ibv_reg_*)
			echo "EXPORT void *$name(void); void *$name(void) { errno = EOPNOTSUPP; return NULL; }" ;;
		*)
			echo "EXPORT int $name(void); int $name(void) { errno = EOPNOTSUPP; return EOPNOTSUPP; }" ;;
		esac
	done
} > "$out_c.new"

{
	cat "$map"
	echo "$missing" | awk '
		$1 != node { if (node) print "};"; node = $1; print "\n" node " {\n\tglobal:" }
		{ print "\t\t" $2 ";" }
		END { if (node) print "};" }'
} > "$out_map.new"

for f in "$out_c" "$out_map"; do
	if cmp -s "$f.new" "$f"; then rm "$f.new"; else mv "$f.new" "$f"; fi
done
