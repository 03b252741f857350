#!/bin/sh
# A room includes only rooms above it in the list of ARCHITECTURE.md; ib, direct and iwarp do not know each other.
# usage: layering.sh SOURCE_DIR
cd "$1/src" || exit 2
order="base wire verbs ib direct iwarp mgmt fabric link host abi weftd cli"
failed=0
rooms_checked=0
may=""
for room in $order; do
	may="$may $room"
	allowed=" $may "
	case $room in
	direct | iwarp) allowed=" base wire verbs $room " ;;
	esac
	includes=$(grep -rhoE '^#include "[a-z]+/' "$room" --include='*.[ch]' --include='*.def' 2>/dev/null |
		sed 's/.*"//; s,/,,' | sort -u)
	[ -n "$includes" ] && rooms_checked=$((rooms_checked + 1))
	for used in $includes; do
		[ -d "$used" ] || continue
		case $allowed in
		*" $used "*) ;;
		*)
			echo "src/$room includes src/$used, which stands below it:"
			grep -rn "#include \"$used/" "$room"
			failed=1
			;;
		esac
	done
done
[ $rooms_checked -ge 3 ] || { echo "only $rooms_checked rooms with includes: is $1 the source tree?"; exit 2; }
exit $failed
