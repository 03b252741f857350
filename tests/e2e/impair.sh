#!/bin/bash
# weft impair: faults that programs meet from one moment to the next, and that end.
. "${0%/*}/lib.sh"
command -v ibv_rc_pingpong >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no ibv_rc_pingpong here"; exit 77; }

# counter NAME: of all processes
counter() { weft counters --json | python3 -c 'import json, sys
print(sum(p.get("counters", {}).get(sys.argv[1], 0) for p in json.load(sys.stdin)["processes"]))' "$1"; }
is_more() { [ "$(counter "$1")" -gt "$2" ]; }
goes_on() { local now; now=$(counter "$1"); within 20 is_more "$1" "$now"; }
path_is() { [ "$(weft qp --json | grep -c "\"path\": \"$1")" = "$2" ]; }

start() {
	local port
	port=$(free_port)
	"$BIN/weft" run "${options[@]}" -- ibv_rc_pingpong -d $device -g 0 -n 1000000000 -p "$port" >"$HOME_DIR/server" 2>&1 &
	server=$!
	within 20 is_listening "$port" || fail "no server: $(cat "$HOME_DIR/server")"
	"$BIN/weft" run "${options[@]}" -- ibv_rc_pingpong -d $device -g 0 -n 1000000000 -p "$port" 127.0.0.1 \
		>"$HOME_DIR/client" 2>&1 &
	client=$!
	within 20 is_more rdma_sends 1000 || fail "the pingpong does not begin: $(cat "$HOME_DIR"/{server,client})"
}
stop() {
	kill "$server" "$client" 2>/dev/null
	wait "$server" "$client" 2>/dev/null
	rm "$HOME_DIR"/{server,client}
}

# mistakes
expect 2 weft impair
expect 2 weft impair weft0
expect 2 weft impair nobody loss=5%
says "'nobody' is neither a PID, nor all, nor a device"
expect 2 weft impair all loss=5
says "loss=5: loss is 0% to 100%, with the sign %"
expect 2 weft impair weft0 weft1.loss=5%
expect 2 weft impair clear weft0
expect 0 weft impair all loss=5%,seed=1
says "no process is attached"
expect 1 weft impair 1 loss=5%
says "process 1 is not attached"
expect 0 weft impair show
says "no process is impaired"

for device in weft0 weft1; do
	other=$([ $device = weft0 ] && echo weft1 || echo weft0)
	options=()
	start
	path_is direct 2 || fail "the pingpong is not direct: $(weft qp)"
	# one of the two: what both send goes as packets from then on
	expect 0 weft impair "$client" loss=3%,corrupt=1%,seed=7
	says "1 processes are impaired by loss=3%,corrupt=1%,seed=7"
	within 60 path_is packets 2 || fail "there is still a direct path: $(weft qp)"
	within 20 is_more impaired_lost 20 || fail "nothing is lost"
	within 20 is_more icrc_errors 5 || fail "nothing is spoilt"
	expect 0 weft impair show "$client"
	says "loss=3%"
	says "corrupt=1%"
	expect 0 weft impair show --json "$server"
	case $out in *loss*) fail "the server is impaired: $out" ;; esac
	goes_on rdma_sends || fail "the pingpong stands still: $(cat "$HOME_DIR"/{server,client})"
	# the next weftd's network has it too
	kill -9 $(daemons)
	within 60 eval '[ "$(weft qp | grep -c RTS)" = 2 ]' || fail "the pingpong does not come back: $(weft qp)"
	within 60 path_is packets 2 || fail "the next weftd's processes are direct: $(weft qp)"
	goes_on impaired_lost || fail "faults end with weftd"
	# it ends, and what was direct is
	expect 0 weft impair clear "$client"
	says "1 processes are not impaired"
	within 20 path_is direct 2 || fail "there is no direct path: $(weft qp)"
	expect 0 weft impair show
	says "no process is impaired"
	lost=$(counter impaired_lost)
	goes_on rdma_sends || fail "the pingpong stands still: $(cat "$HOME_DIR"/{server,client})"
	[ "$(counter impaired_lost)" = "$lost" ] || fail "frames are lost without faults"
	# frames of the other device alone: none here
	expect 0 weft impair $other loss=50%
	says "2 processes are impaired by $other.loss=50%,seed="
	goes_on rdma_sends || fail "the pingpong stands still: $(cat "$HOME_DIR"/{server,client})"
	[ "$(counter impaired_lost)" = "$lost" ] || fail "frames of $device are lost, not of $other"
	# all, several times over
	for fault in loss=5% dup=20% reorder=20% delay=100us; do
		expect 0 weft impair all "$fault,seed=3"
		goes_on rdma_sends || fail "the pingpong stands still with $fault: $(cat "$HOME_DIR"/{server,client})"
		expect 0 weft impair clear
		goes_on rdma_sends || fail "the pingpong stands still after $fault: $(cat "$HOME_DIR"/{server,client})"
	done
	stop
done

# what was decided is in the trace, and is decided again
device=weft1
options=(--trace "$HOME_DIR/trace")
start
expect 0 weft impair all loss=5%,dup=5%,delay=20us,seed=9
goes_on impaired_lost || fail "nothing is lost"
expect 0 weft impair all in.corrupt=5%,burst=2%,burst-length=3,at=0s..100s,seed=10
goes_on icrc_errors || fail "nothing is spoilt"
expect 0 weft impair clear
goes_on rdma_sends || fail "the pingpong stands still: $(cat "$HOME_DIR"/{server,client})"
stop
expect 0 weft replay --quiet "$HOME_DIR/trace"
says "all as recorded"
out=$(weft replay "$HOME_DIR/trace" | grep "is impaired by")
says "is impaired by loss=5%,dup=5%,delay=20us,seed=9"
says "is impaired by in.corrupt=5%,burst=2%,burst-length=3,at=0s..100s,seed="
says "is impaired by nothing"
rm "$HOME_DIR/trace"
finish
