#!/bin/bash
# weft run --devices: a network with devices of chosen names, kinds and rates, as Debian's own programs see them.
. "${0%/*}/lib.sh"
for program in ibv_devices ibv_devinfo ibstat ib_write_bw rping; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

list=mlx5_0,mlx5_1:roce,rate=400G,mlx5_2:ib,rate=200G,mlx5_3:roce
ours() { "$BIN/weft" run --devices "$list" "$@"; }
names() { echo $(ours "$@" -- ibv_devices | sed -n 's/^ *\([a-z][a-z0-9_]*\)[[:space:]]*[0-9a-f]\{16\}$/\1/p'); }
is_gone() { ! weft status >/dev/null; }

# mistakes
expect 2 weft run --devices "mlx5_0,rate=3G" -- true
says "--devices mlx5_0,rate=3G: rate=3G: rates are 10G"
expect 2 weft up --devices "a,b,a"
says "two devices have one name"

[ "$(names)" = "mlx5_0 mlx5_1 mlx5_2 mlx5_3" ] || fail "ibv_devices lists: $(names)"
[ "$(ours -- ibv_devices | grep -oE '[0-9a-f]{16}' | sort -u | wc -l)" = 4 ] || fail "two devices have one GUID"
out=$(ours -- ibv_devinfo -v -d mlx5_1)
says "100.0 Gbps (128)"
says "Ethernet"
expect 0 ours -- ibv_devinfo -d mlx5_2
says "InfiniBand"
expect 0 ours -- cat /sys/class/infiniband/mlx5_2/ports/1/rate
says "200 Gb/sec (4X HDR)"
expect 0 ours -- ibstat -l
[ "$(echo $out)" = "mlx5_0 mlx5_1 mlx5_2 mlx5_3" ] || fail "ibstat -l lists: $out"
expect 0 ours -- ibstat mlx5_2
says "State: Active"
# what is hidden is in no list and in no folder
[ "$(names --device mlx5_3,mlx5_0)" = "mlx5_0 mlx5_3" ] || fail "ibv_devices lists: $(names --device mlx5_3,mlx5_0)"
expect 0 ours --device mlx5_3,mlx5_0 -- ls /sys/class/infiniband /sys/class/infiniband_verbs /dev/infiniband
for hidden in mlx5_1 mlx5_2 uverbs1 uverbs2; do
	case $out in *"$hidden"*) fail "$hidden is not hidden: $out" ;; esac
done
says uverbs3
expect 0 ours --device mlx5_1 -- ibstat -l
[ "$out" = mlx5_1 ] || fail "ibstat -l lists: $out"
expect 2 ours --device weft0 -- true
says "unknown device in --device weft0"
# addresses are the first RoCE device's; programs see by the prefix that InfiniBand devices are on subnets of their own
expect 0 ours -- sh -c 'cut -d: -f1-4 /sys/class/infiniband/mlx5_0/ports/1/gids/0 /sys/class/infiniband/mlx5_2/ports/1/gids/0'
[ "$(echo $out)" = "fe80:0000:0000:0000 fe80:0000:0000:0001" ] || fail "the subnets are $out"

# it carries data by each, and rdma_cm takes the one that is to be seen
for device in mlx5_0 mlx5_1 mlx5_2 mlx5_3; do
	write="ib_write_bw -d $device -n 100 -s 65536"
	expect 0 weft pair --devices "$list" -- $write --- $write localhost
	says "$device"
	expect 0 weft pair --devices "$list" --device $device -- rping -s -C 3 --- rping -c -a 127.0.0.1 -C 3
done
expect 0 weft pair --devices "$list" -- rping -s -C 3 --- rping -c -a 127.0.0.1 -C 3

expect 0 weft pair --devices "$list" -i mlx5_3.loss=5%,seed=3 -- $write --- $write localhost

# commands and faults know the names
expect 0 weft up --devices "$list"
expect 0 weft link down mlx5_2
[ "$(ours -- cat /sys/class/infiniband/mlx5_{1,2,3}/ports/1/state | tr -d '\n')" = "4: ACTIVE1: DOWN4: ACTIVE" ] ||
	fail "the wrong port is down"
expect 0 weft link up mlx5_2
expect 1 weft link down weft0
expect 2 ours --impair mlx5_9.loss=5% -- true
expect 2 ours --impair weft4.loss=5% -- true
says "names another"
"$BIN/weft" run --trace "$HOME_DIR/trace" --impair mlx5_1.loss=20%,seed=7 -- bash -c '
	ib_write_bw -d mlx5_1 -n 100 -p "$1" >/dev/null &
	until ib_write_bw -d mlx5_1 -n 100 -p "$1" localhost >/dev/null 2>&1; do kill -0 $! || exit 1; done
	wait $!' _ "$(free_port)" || fail "ib_write_bw ends badly under loss"
expect 0 weft replay -q "$HOME_DIR/trace"
says "all as recorded"
[ "$(weft replay "$HOME_DIR/trace" | grep -c lost)" -gt 0 ] || fail "no frame of mlx5_1 was lost"
rm "$HOME_DIR/trace"

# a network keeps its devices, also when its weftd is killed
pid=$(daemons)
"$BIN/weft" run -- sleep 60 &
program=$!
kill -9 "$pid"
expect 0 weft devices
says mlx5_3
expect 1 weft run --devices a,b -- true
says "has other devices than --devices says"
kill $program
wait $program 2>/dev/null
expect 0 weft down
# one that nobody has asked to stay begins anew
expect 0 weft run --devices a -- true
expect 0 weft run --devices b -- ibv_devices
says "    b "
# also where weftd was killed
kill -9 "$(daemons)"
expect 0 weft run --devices c -- ibv_devices
says "    c "
# a network has files for some choices of devices, wherever programs are
expect 0 weft up --devices a,b:roce,c:roce,d:roce,e:roce,f:roce
weft fabric make star hosts=2 >"$HOME_DIR/topology" || fail "no topology is made"
expect 0 weft fabric load "$HOME_DIR/topology"
for choice in {a,b,c,d,e,f} a,{b,c,d,e,f} b,{c,d,e,f} c,{d,e,f} d,{e,f} e,f a,b,{c,d,e}; do
	expect 0 weft run --device $choice -- true
done
expect 1 weft run --device a,b,c,d,e -- true
says "--device has chosen so many sets of devices"
says "24 in a network"
says "choose devices that were chosen before, or use another network"
expect 1 weft run --device a,b,c,d,e --node h1 -- true
says "24 in a network"
says "choose devices that were chosen before, or use another network"
expect 0 weft run --device a,b,c --node h1 -- true
expect 0 weft down
rm "$HOME_DIR/topology"
# a fabric is for one InfiniBand device
weft fabric make star hosts=2 >"$HOME_DIR/topology" || fail "no topology is made"
expect 0 weft up --devices a,b
expect 1 weft fabric load "$HOME_DIR/topology"
says "a fabric is for a network with one InfiniBand device"
expect 0 weft down
rm "$HOME_DIR/topology"
finish
