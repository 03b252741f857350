#!/bin/sh
# stock.sh STOCK_LIBRARY PRIVATE MAP OUT_C OUT_MAP
# The stock library's default symbols that MAP does not have, and those of the list PRIVATE: rdma-core's private node, whose
# number changes between releases, and what newer releases add. OUT_MAP is MAP with their nodes, OUT_C has an entry for each
# that refuses, so that Debian's providers load and stay inert and programs linked BIND_NOW start. By the list, what is built
# here serves the programs of other releases too. A name in several nodes is in the last of them by default.
set -eu
stock=$1 private=$2 map=$3 out_c=$4 out_map=$5

# implemented in query.c, sysfs.c and text.c, with the entries of older nodes
real=" ibv_query_gid_type ibv_read_ibdev_sysfs_file ibv_wr_opcode_str "

missing=$({
	nm -D --defined-only --with-symbol-versions "$stock" | awk '
		{ n = split($3, at, "@@") }
		n == 2 && at[1] != at[2] { print at[2], at[1], $2 }'
	grep -v '^#' "$private"
} | awk -v map="$map" '
	BEGIN { while ((getline line < map) > 0) if (line ~ /^\t\t[a-z_0-9]*;$/) { gsub(/[\t;]/, "", line); known[line] = 1 } }
	!($2 in known)' | sort -u)
newest=$(echo "$missing" | awk '{ node[$2] = $1 } END { for (name in node) print node[name], name }')

# is_newest NODE NAME: NAME's entry in NODE is the default one
is_newest() {
	case "
$newest
" in *"
$1 $2
"*) return 0 ;; esac
	return 1
}

{
	echo '/* Made by src/abi/verbs/stock.sh: entries of the stock library that are refused. */'
	echo '#include <errno.h>'
	echo '#include <stddef.h>'
	echo '#define EXPORT __attribute__((visibility("default")))'
	echo "$missing" | while read -r node name type; do
		case $real in *" $name "*) continue ;; esac
		symbol=$name
		if ! is_newest "$node" "$name"; then
			symbol=${name}_$node
			echo "__asm__(\".symver $symbol,$name@$node\");"
		fi
		case $type:$name in
		[BDRSVbdrs]:*)
			echo "EXPORT char $symbol;" ;;
		*:*_register_driver_*)
			echo "EXPORT void $symbol(void); void $symbol(void) { }" ;;
		*:*_open_device|*:*_alloc_context|*:ibv_import_*|*:ibv_alloc_*|*:ibv_create_*|*:ibv_reg_*)
			echo "EXPORT void *$symbol(void); void *$symbol(void) { errno = EOPNOTSUPP; return NULL; }" ;;
		*)
			echo "EXPORT int $symbol(void); int $symbol(void) { errno = EOPNOTSUPP; return EOPNOTSUPP; }" ;;
		esac
	done
} > "$out_c.new"

{
	cat "$map"
	echo "$missing" | while read -r node name type; do
		echo "$node $(if is_newest "$node" "$name"; then echo "$name"; fi)"
	done | awk '
		$1 != node { if (node) print "};"; node = $1; print "\n" node " {\n\tglobal:" }
		$2 { print "\t\t" $2 ";" }
		END { if (node) print "};" }'
} > "$out_map.new"

for f in "$out_c" "$out_map"; do
	if cmp -s "$f.new" "$f"; then rm "$f.new"; else mv "$f.new" "$f"; fi
done
