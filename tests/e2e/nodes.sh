#!/bin/bash
# Debian's own programs at the hosts of a fabric: what they see there, whom they reach, what a link that goes down does to them.
. "${0%/*}/lib.sh"
for program in ibv_devinfo ibv_rc_pingpong; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

net=$HOME_DIR/net
programs=()
at() { local node=$1; shift; "$BIN/weft" run --node "$node" --device weft0 -- "$@"; }
port_attributes() { out=$(at "$1" ibv_devinfo -v -d weft0 2>&1) || fail "ibv_devinfo fails at $1: $out"; }
# of /sys, as the shim shows it
port_file() { at "$1" cat "/sys/class/infiniband/weft0/ports/1/$2"; }


# start NODE NODE ITERATIONS: a pingpong between two hosts. Its ends are ${programs[@]}, their output is $HOME_DIR/server, client.
start() {
	local port
	port=$(free_port)
	"$BIN/weft" run --node "$1" --device weft0 -- ibv_rc_pingpong -d weft0 -p "$port" -n "$3" >"$HOME_DIR/server" 2>&1 &
	programs=($!)
	within 20 is_listening "$port" || fail "there is no server at $1: $(cat "$HOME_DIR/server")"
	"$BIN/weft" run --node "$2" --device weft0 -- ibv_rc_pingpong -d weft0 -p "$port" -n "$3" 127.0.0.1 \
		>"$HOME_DIR/client" 2>&1 &
	programs+=($!)
}

# ends STATUS: both ends do, with this status.
ends() {
	local pid
	for pid in "${programs[@]}"; do
		wait "$pid"
		local got=$?
		[ "$got" = "$1" ] || fail "a program exits with $got, not $1: $(cat "$HOME_DIR"/{server,client})"
	done
	out=$(cat "$HOME_DIR"/{server,client})
	rm "$HOME_DIR"/{server,client}
}

# without a fabric there is no host
expect 1 weft run --node h1 -- true
says "the network has no fabric"
says "next: weft fabric load"
expect 1 weft fabric unload

weft fabric make fat-tree ports=4 >"$net"
expect 0 weft fabric load "$net"
says "is a fabric of 14 nodes now, routed by min-hop"
# weft env tells a program that something else starts where it is
WEFT_NODE=h2 "$BIN/weft" env >"$HOME_DIR/env" || fail "weft env fails at a host"
out=$(. "$HOME_DIR/env"; cat "/sys/class/infiniband/weft0/node_desc"; echo "$WEFT_NODE") || fail "no device files at a host: $out"
case $out in *h2*h2*) ;; *) fail "weft env at h2 shows $out" ;; esac
rm "$HOME_DIR/env"
expect 1 weft run --node h99 -- true
says "the network's fabric has no host 'h99' with a link"
expect 1 weft run --node s1 -- true
says "no host 's1'"

# each host has addresses of its own, the same for all programs there
port_attributes h1
lid=$(sed -n 's/.*port_lid:[^0-9]*//p' <<<"$out")
says "node_guid:			0200:0000:0010:0000"
says "GID[  0]:		fe80:0000:0000:0000:0200:0000:0010:0001"
says "active_speed:		50.0 Gbps (64)"
port_attributes h1
[ "$(sed -n 's/.*port_lid:[^0-9]*//p' <<<"$out")" = "$lid" ] || fail "h1 has two LIDs"
port_attributes h5
[ "$(sed -n 's/.*port_lid:[^0-9]*//p' <<<"$out")" != "$lid" ] || fail "h1 and h5 have one LID"
[ "$(port_file h1 lid)" = "$(printf 0x%x "$lid")" ] || fail "/sys shows LID $(port_file h1 lid), not $lid"
[ "$(port_file h1 gids/0)" = fe80:0000:0000:0000:0200:0000:0010:0001 ] || fail "/sys shows GID $(port_file h1 gids/0)"
[ "$(port_file h1 rate)" = "200 Gb/sec (4X HDR)" ] || fail "/sys shows $(port_file h1 rate)"
[ "$(at h5 cat /sys/class/infiniband/weft0/node_desc)" = h5 ] || fail "h5 has another name"
[ "$(at h5 "$BIN/weft" run -- printenv WEFT_NODE)" = h5 ] || fail "the node is not passed on"

# a launcher's ranks are at the hosts of their numbers, and begin with the first again; what has no rank is at the first
rank() {
	env "$@" "$BIN/weft" run --nodes h2,h5,h7 --device weft0 -- \
		sh -c 'cat /sys/class/infiniband/weft0/node_desc; echo "$WEFT_NODE"'
}
[ "$(rank)" = $'h2\nh2' ] || fail "a program without a rank is at $(rank)"
[ "$(rank OMPI_COMM_WORLD_LOCAL_RANK=2)" = $'h7\nh7' ] || fail "rank 2 of Open MPI is at $(rank OMPI_COMM_WORLD_LOCAL_RANK=2)"
[ "$(rank PMI_RANK=4)" = $'h5\nh5' ] || fail "rank 4 of MPICH is at $(rank PMI_RANK=4)"
[ "$(rank PMI_RANK=x)" = $'h2\nh2' ] || fail "a rank that is no number is at $(rank PMI_RANK=x)"
out=$(PMI_RANK=1 "$BIN/weft" run --nodes h2,h5 -- env -i "$(command -v printenv)" WEFT_NODE) && [ "$out" = h5 ] ||
	fail "an environment that is cleared puts rank 1 at '$out'"
out=$(PMI_RANK=1 "$BIN/weft" run --nodes h2,h5 -- "$BIN/weft" run --node h7 -- printenv WEFT_NODE)
[ "$out" = h7 ] || fail "a rank that chooses another host is at '$out'"
expect 1 weft run --nodes h2,h99 -- true
says "the network's fabric has no host 'h99' with a link"
expect 1 weft run --nodes h2,,h5 -- true
says "--nodes is no list of hosts"
expect 2 weft run --node h1 --nodes h2,h5 -- true
says "exclude each other"

# hosts reach each other, and programs of one host
start h1 h5 100
ends 0
start h2 h2 100
ends 0
# but nobody outside
port=$(free_port)
"$BIN/weft" run --device weft0 -- ibv_rc_pingpong -d weft0 -p "$port" -n 10 >"$HOME_DIR/server" 2>&1 &
programs=($!)
within 20 is_listening "$port" || fail "there is no server: $(cat "$HOME_DIR/server")"
at h1 ibv_rc_pingpong -d weft0 -p "$port" -n 10 127.0.0.1 >"$HOME_DIR/client" 2>&1
grep -q "transport retry counter exceeded" "$HOME_DIR/client" || fail "h1 reaches who is nowhere: $(cat "$HOME_DIR/client")"
kill "${programs[0]}"
wait "${programs[0]}" 2>/dev/null
rm "$HOME_DIR"/{server,client}

# a link that goes down under a connection ends it as on hardware
start h1 h5 1000000000
within 20 shows qp "channel to slot" || fail "the pingpong does not begin: $out"
expect 0 weft status
says "weft0 is a fabric of 14 nodes"
case $out in *NODE*PID*PROGRAM*h1*ibv_rc_pingpong*) ;; *) fail "weft status does not show who is at h1: $out" ;; esac
expect 1 weft fabric load "$net"
says "2 processes are at ports of the fabric"
expect 1 weft fabric link h5:7 down
says "no link at 'h5:7'"
expect 0 weft fabric link h5:1 down
within 20 shows qp cut || [ "$(weft qp | wc -l)" -lt 3 ] || fail "the routes are not cut: $out"
# the other may have nothing under way, and waits for ever
within 30 grep -q "transport retry counter exceeded" "$HOME_DIR/client" "$HOME_DIR/server" ||
	fail "no end says that its peer is lost: $(cat "$HOME_DIR"/{server,client})"
kill "${programs[@]}" 2>/dev/null
wait "${programs[@]}" 2>/dev/null
rm "$HOME_DIR"/{server,client}
[ "$(port_file h5 state)" = "1: DOWN" ] || fail "/sys shows $(port_file h5 state)"
port_attributes h5
says "PORT_DOWN (1)"

# and it is back when the link is, also in the eyes of the next weftd
kill -9 "$(daemons)"
port_attributes h5
says "PORT_DOWN (1)"
expect 0 weft fabric link h5:1 up
port_attributes h5
says "PORT_ACTIVE (4)"
start h1 h5 100
ends 0

# the same for RDMA writes, which need nobody at the other end
if command -v ib_write_bw >/dev/null && [ -z "${WEFT_TEST_PRELOAD-}" ]; then
	port=$(free_port)
	"$BIN/weft" run --node h1 -- ib_write_bw -d weft0 -p "$port" -D 60 >"$HOME_DIR/server" 2>&1 &
	programs=($!)
	within 20 is_listening "$port" || fail "there is no ib_write_bw at h1: $(cat "$HOME_DIR/server")"
	"$BIN/weft" run --node h5 -- ib_write_bw -d weft0 -p "$port" -D 60 127.0.0.1 >"$HOME_DIR/client" 2>&1 &
	programs+=($!)
	within 20 shows qp RTS || fail "ib_write_bw does not begin: $out"
	expect 0 weft fabric link h1:1 down
	within 30 grep -q "Failed status 12" "$HOME_DIR/client" || fail "ib_write_bw goes on: $(cat "$HOME_DIR/client")"
	kill "${programs[@]}" 2>/dev/null
	wait "${programs[@]}" 2>/dev/null
	rm "$HOME_DIR"/{server,client}
fi

within 5 eval '[ "$(weft status --json | python3 -c "import json, sys; print(json.load(sys.stdin)[\"attached\"])")" = 0 ]'
# a program that has used no device yet is at its host too, also in the eyes of the next weftd
mkfifo "$HOME_DIR/end"
at h1 bash -c 'echo "$WEFT_ROOT" >"$1.root"; read -r <"$1"' bash "$HOME_DIR/end" &
programs=($!)
within 20 test -s "$HOME_DIR/end.root" || fail "there is no shell at h1"
is_refused()
{
	out=$(weft fabric load "$net" 2>&1)
	[ $? = 1 ] && [[ $out = *"1 processes are at ports of the fabric"* ]]
}
for weftd in first next; do
	[ $weftd = first ] || kill -9 "$(daemons)"
	within 20 is_refused || fail "another fabric is loaded in front of the $weftd weftd's programs: $out"
	[ -e "$(cat "$HOME_DIR/end.root")/sys/class/infiniband/weft0" ] || fail "the device files of h1 are gone"
done
echo >"$HOME_DIR/end"
wait "${programs[0]}"
rm "$HOME_DIR"/end{,.root}

expect 0 weft fabric unload
expect 1 weft run --node h1 -- true
# the next weftd looks from time to time which programs of the last one have ended
within 5 eval 'out=$(weft down 2>&1)' || fail "the network stays: $out"
rm "$net"
finish
