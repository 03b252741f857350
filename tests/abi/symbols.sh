#!/bin/sh
# symbols.sh STOCK OURS PRIVATE [PROVIDER...]: every name@version of the stock libibverbs.so.1 exists in ours as the same kind of
# symbol and the same default, the SONAME is the same, nothing else is exported but what PRIVATE lists, which all is, so that a
# package serves programs of other releases of rdma-core than it was built with; and Debian's providers find all they need.
set -eu
stock=$1 ours=$2 private=$3
shift 3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0

# "name@@VERSION kind", F for functions and O for objects; version nodes are absolute symbols
dump() {
	nm -D --defined-only --with-symbol-versions "$1" | awk '$2 == "A" { print $3, "node"; next }
		{ print $3, ($2 ~ /^[Tti]$/ ? "F" : "O") }' | sort
}
dump "$stock" > "$tmp/stock"
dump "$ours" > "$tmp/ours"

complain() {
	if [ -s "$2" ]; then
		echo "$1:"
		sed 's/^/  /' "$2"
		status=1
	fi
}
comm -23 "$tmp/stock" "$tmp/ours" > "$tmp/missing"
complain "the stock library has, ours has not" "$tmp/missing"
comm -13 "$tmp/stock" "$tmp/ours" | grep -v '@@WEFT_\| node$\|@IBVERBS_PRIVATE_' > "$tmp/more" || true
complain "ours has, the stock library has not" "$tmp/more"

awk '!/^#/ { print $2 "@" $1, ($3 == "B" ? "O" : "F") }' "$private" | sort > "$tmp/listed"
grep '@IBVERBS_PRIVATE_' "$tmp/ours" | sed 's/@@/@/' | sort > "$tmp/offered"
comm -23 "$tmp/listed" "$tmp/offered" > "$tmp/missing"
complain "programs of other releases of rdma-core need, ours has not" "$tmp/missing"

soname=$(readelf -d "$ours" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libibverbs.so.1 ] || { echo "SONAME is $soname"; status=1; }

# what a library needs of libibverbs.so.1, by version node
nm -D --defined-only --with-symbol-versions "$ours" | awk '{ sub(/@@/, "@", $3); print $3 }' | sort > "$tmp/offered"
for provider; do
	[ -e "$provider" ] || continue
	nm -D --undefined-only --with-symbol-versions "$provider" | awk '$2 ~ /@IBVERBS_/ { print $2 }' | sort > "$tmp/needed"
	comm -23 "$tmp/needed" "$tmp/offered" > "$tmp/missing"
	complain "$provider needs, ours has not" "$tmp/missing"
done

echo "$(grep -c @ "$tmp/stock") symbols of $stock"
exit $status
