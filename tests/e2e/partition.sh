#!/bin/bash
# partition.sh BIN: processes that weft impair cuts off from others by partition=, and whom nobody else is cut off from.
. "${0%/*}/lib.sh"
command -v ibv_rc_pingpong >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no ibv_rc_pingpong here"; exit 77; }

# of the process PID: how many sends it has completed
sends() { weft counters --json "$1" 2>/dev/null | python3 -c 'import json, sys
print(sum(p.get("counters", {}).get("rdma_sends", 0) for p in json.load(sys.stdin)["processes"]))' 2>/dev/null || echo 0; }
sends_more() { [ "$(sends "$1")" -gt "$2" ]; }
# A query that fails says 0: the value to exceed is one that is seen.
seen_sends() { seen=$(sends "$1"); [ "$seen" -gt 0 ]; }
goes_on() { within 60 seen_sends "$1" && within 60 sends_more "$1" "$seen"; }

# start NAME: a pingpong without end; its processes are ${server[NAME]} and ${client[NAME]}
declare -A server client
start() {
	local port
	port=$(free_port)
	"$BIN/weft" run "${options[@]}" -- ibv_rc_pingpong -e -d $device -g 0 -n 1000000000 "${size[@]}" -p "$port" \
		>"$HOME_DIR/server.$1" 2>&1 &
	server[$1]=$!
	within 60 is_listening "$port" || fail "no server: $(cat "$HOME_DIR/server.$1")"
	"$BIN/weft" run "${options[@]}" -- ibv_rc_pingpong -e -d $device -g 0 -n 1000000000 "${size[@]}" -p "$port" 127.0.0.1 \
		>"$HOME_DIR/client.$1" 2>&1 &
	client[$1]=$!
	within 60 sends_more "${client[$1]}" 100 || fail "the pingpong does not begin: $(cat "$HOME_DIR"/{server,client}."$1")"
}
stop() {
	kill "${server[$1]}" "${client[$1]}" 2>/dev/null
	wait "${server[$1]}" "${client[$1]}" 2>/dev/null
	rm "$HOME_DIR"/{server,client}."$1"
}
retries_run_out() { grep -qE "transport retry counter exceeded|Work Request Flushed" "$HOME_DIR"/{client,server}."$1"; }
is_cut_off() { within 60 retries_run_out "$1" || fail "$2: $(cat "$HOME_DIR"/{server,client}."$1"; weft impair show)"; }

expect 2 weft impair all partition=slot:0
says "partition is some of lid:N, gid:ADDRESS, slot:N and process:N"
expect 1 weft impair all partition=pid:1
says "process 1 is not attached"

options=() size=()
# one of the four is cut off
device=weft0
start near
start far
# its pingpong ends as on a network that is cut, the other goes on
expect 0 weft impair all partition=pid:"${client[far]}",seed=1
says "partition=slot:"
is_cut_off far "the pingpong goes on"
goes_on "${client[near]}" || fail "the other pingpong stands still: $(cat "$HOME_DIR"/{server,client}.near; weft qp)"
stop far
expect 0 weft impair clear
goes_on "${client[near]}" || fail "it stands still after the end: $(cat "$HOME_DIR"/{server,client}.near; weft qp)"
stop near
device=weft1
# told to one end, both directions are cut; an address that is nobody's cuts nothing
start near
expect 0 weft impair "${server[near]}" partition=lid:77+gid:2001:db8::1+gid:192.0.2.1,seed=1
goes_on "${client[near]}" || fail "an address that is nobody's is theirs: $(cat "$HOME_DIR"/{server,client}.near)"
expect 0 weft impair "${server[near]}" partition=pid:"${client[near]}",seed=1
is_cut_off near "one end alone is not cut off"
stop near
start near
expect 0 weft impair "${server[near]}" in.partition=pid:"${client[near]}",seed=1
is_cut_off near "what the process sends arrives"
stop near

# by address, and again from the trace
device=weft1
options=(--trace "$HOME_DIR/trace") size=(-s 64)
start near
gid=$(weft devices --json | python3 -c 'import json, sys
print(next(g["gid"] for d in json.load(sys.stdin)["devices"] if d["name"] == "weft1" for g in d["gids"] if g["index"] == 0))')
expect 0 weft impair "${client[near]}" "partition=gid:$gid,seed=1"
is_cut_off near "the address is not cut off"
stop near
expect 0 weft replay --quiet "$HOME_DIR/trace"
says "all as recorded"
rm "$HOME_DIR/trace"
finish
