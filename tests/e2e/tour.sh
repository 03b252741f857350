#!/bin/bash
# tour.sh BIN README: the commands of README's tour, pasted into a shell as they stand, all succeed and leave no program behind.
# In a network namespace of its own, as perftest's port is fixed.
for program in ibv_devinfo ib_write_bw rping ss unshare; do
	command -v $program >/dev/null || { echo "skipped: no $program here"; exit 77; }
done
if [ -z "${WEFT_APART-}" ]; then
	unshare -rn true 2>/dev/null || { echo "skipped: no network namespace can be made"; exit 77; }
	WEFT_APART=1 exec unshare -rn "$0" "$@"
fi
ip link set lo up || exit 1
. "${0%/*}/lib.sh"
tour=$(sed -n '/^## A tour/,/^`weft pair` starts/s/^    //p' "$2" | grep -v '^make ' | sed "s#build/bin/weft#$BIN/weft#g")
[ "$(grep -c weft <<<"$tour")" -ge 8 ] || fail "README has no tour: $tour"
expect 0 timeout 100 bash -e <<<"$tour"
says "hca_id:	weft1"
says "BW average"
says "ping data: rdma-ping-9"
says "GID 0"
says '"processes": '
[ -z "$(jobs -p)" ] || fail "programs are left"
expect 0 weft down
finish
