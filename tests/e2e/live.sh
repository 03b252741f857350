#!/bin/bash
# Debian's own programs attached: what weft shows of them, and that nothing stays of those that are stopped or killed.
. "${0%/*}/lib.sh"
for program in ibv_asyncwatch ibv_rc_pingpong; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

number() { weft status --json | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }
is_number() { [ "$(number "$1")" = "$2" ]; }
descriptors() { ls "/proc/$(daemons)/fd" | wc -l; }
are_descriptors() { [ "$(descriptors)" = "$1" ]; }
# a busy machine may keep others from answering in time too
names_the_stopped() {
	shows qp "process $watcher (ibv_asyncwatch): no answer within 1 s" && case $out in *RTS*) ;; *) false ;; esac
}

# of weftd's sockets only the one that listens
nobody_is_connected() { [ "$(grep -cF "$WEFT_DIR/ctl" /proc/net/unix)" = 1 ]; }

expect 0 weft up
within 5 nobody_is_connected || fail "weftd keeps the connection of weft up"
before=$(descriptors)

# a queue pair and its memory
port=$(free_port)
"$BIN/weft" run --device weft0 -- ibv_rc_pingpong -d weft0 -p "$port" -n 1000000000 >/dev/null 2>&1 &
server=$!
within 10 shows qp INIT || fail "weft qp does not show the server: $out"
says "weft0"
shows mr "$server" || fail "weft mr does not show its memory: $out"
"$BIN/weft" run -- ibv_rc_pingpong -d weft0 -p "$port" -n 1000000000 127.0.0.1 >/dev/null 2>&1 &
client=$!
within 10 is_number channels 1 || fail "there is no channel between the two"
within 10 shows qp RTS || fail "weft qp does not show the connection: $out"
says "direct"
within 10 shows qp "channel to slot" || fail "weft qp does not show that a channel leads to the peer: $out"
for command in qp mr counters; do
	out=$(weft $command --json)
	python3 -c 'import json, sys; assert len(json.load(sys.stdin)["processes"]) == 2' <<<"$out" ||
		fail "weft $command --json: $out"
	expect 0 weft $command "$client"
	says "$client"
done
weft qp "$client" | grep -q "^$server " && fail "weft qp PID shows another process"

# one that is stopped is named, and holds nobody up; not one of the two, as the other would soon end
"$BIN/weft" run -- ibv_asyncwatch >/dev/null 2>&1 &
watcher=$!
within 10 is_number attached 3 || fail "ibv_asyncwatch does not attach"
kill -STOP "$watcher"
expect 0 weft qp
within 10 names_the_stopped || fail "weft qp does not name the stopped process, or not the others' connection: $out"
kill -9 "$watcher"
wait "$watcher" 2>/dev/null

# killed in the middle of traffic: weftd has as many descriptors as before
for pid in "$client" "$server"; do
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
done
within 10 is_number attached 0 || fail "the dead are still attached"
for what in slots_used channels programs groups; do
	[ "$(number $what)" = 0 ] || fail "the dead leave $(number $what) $what"
done
within 5 are_descriptors "$before" || fail "weftd has $(descriptors) descriptors, before $before"

# weftd itself is killed: its clients live on, and the next weftd starts clean
"$BIN/weft" run -- ibv_asyncwatch >/dev/null 2>&1 &
watcher=$!
within 10 is_number attached 1 || fail "ibv_asyncwatch does not attach"
kill -9 "$(daemons)"
within 5 sh -c "! '$BIN/weft' status >/dev/null"
kill -0 "$watcher" || fail "a client dies with weftd"
expect 0 weft run -- ibv_devices
says weft1
kill "$watcher"
wait "$watcher" 2>/dev/null
expect 0 weft down --force
finish
