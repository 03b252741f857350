#!/bin/sh
# A file that includes a room which its own may not does not compile; one that includes only what it may does.
# usage: layering.sh BUILD_DIR
cd "$1/rooms" || exit 2
compiles() {
	printf '#include "%s"\n' "$2" | ${CC:-cc} -D_GNU_SOURCE -I "$1" -x c -fsyntax-only - 2>/dev/null
}
failed=0
tried=0
expect() {
	tried=$((tried + 1))
	compiles "$2" "$3" && got=yes || got=no
	[ $got = "$1" ] || { echo "$2 includes $3: $got, not $1"; failed=1; }
}
for target in *; do
	expect yes "$target" base/list.h
	for room in "$target"/* "$target"/abi/*; do
		case $room in *"*" | */abi) continue ;; esac
		[ -L "$room" ] || { echo "$room is no link"; failed=1; }
	done
done
expect no weft_wire verbs/qp.h
expect yes weft_verbs verbs/qp.h
expect no weft_verbs ib/ib.h
expect no weft_ib direct/rma.h
expect no weft_direct ib/ib.h
expect no weft_link verbs/qp.h
expect no weft_multipath verbs/qp.h
expect yes weft_multipath wire/field.h
expect yes weft_ib multipath/requester.h
expect no weft_impair link/link.h
expect yes weft_impair ib/ib.h
expect no weft_weftd verbs/qp.h
expect no weft_control runtime/runtime.h
[ $tried -ge 20 ] || { echo "only $tried includes tried: is $1 a build directory?"; exit 2; }
exit $failed
