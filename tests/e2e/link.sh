#!/bin/bash
# weft link: a port that goes down and comes up again, as Debian's own programs see it.
. "${0%/*}/lib.sh"
for program in ibv_devinfo ibv_rc_pingpong ibv_ud_pingpong ibv_asyncwatch; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

programs=()
ours() { "$BIN/weft" run -- "$@"; }
port_file() { ours cat "/sys/class/infiniband/$1/ports/1/$2"; }
state_of() { weft devices --json | python3 -c 'import json, sys
print(*(d["state"] for d in json.load(sys.stdin)["devices"] if d["name"] == sys.argv[1]))' "$1"; }
is_state() { [ "$(state_of "$1")" = "$2" ]; }
# bytes that QPs have sent by now
sent() { weft qp --json | python3 -c 'import json, sys
print(sum(q["bytes_sent"] for p in json.load(sys.stdin)["processes"] for q in p.get("qps", [])))'; }
has_sent_more() { [ "$(sent)" -gt "$1" ]; }

# start OPTIONS PROGRAM ARGUMENTS: two ends of it. Their output is $HOME_DIR/server, client.
start() {
	local port
	port=$(free_port)
	"$BIN/weft" run -- "$@" -p "$port" >"$HOME_DIR/server" 2>&1 &
	programs=($!)
	within 20 is_listening "$port" || fail "$1 has no server: $(cat "$HOME_DIR/server")"
	"$BIN/weft" run -- "$@" -p "$port" 127.0.0.1 >"$HOME_DIR/client" 2>&1 &
	programs+=($!)
}
stop() {
	kill "${programs[@]}" 2>/dev/null
	wait "${programs[@]}" 2>/dev/null
	rm "$HOME_DIR"/{server,client}
}
ends_well() {
	local pid
	for pid in "${programs[@]}"; do
		wait "$pid" || fail "$1 fails: $(cat "$HOME_DIR"/{server,client})"
	done
	rm "$HOME_DIR"/{server,client}
}
a_side_says() { grep -qE "$1" "$HOME_DIR/client" "$HOME_DIR/server"; }

# mistakes
expect 2 weft link
expect 2 weft link away weft0
says "next: weft link down DEVICE"
expect 2 weft link down weft0 --for 3
says "--for 3: it is no time"
expect 2 weft link down weft0 --for 25000000s
expect 2 weft link up weft0 --for 3s
says "a link stays up"
expect 1 weft link down weft7
says "there is no device 'weft7'"
expect 1 weft link down h1:1
says "the network has no fabric"

for device in weft0 weft1; do
	other=$([ $device = weft0 ] && echo weft1 || echo weft0)
	# the event, in a program that waits for it
	"$BIN/weft" run -- stdbuf -oL ibv_asyncwatch -d $device >"$HOME_DIR/events" 2>&1 &
	watcher=$!
	within 20 grep -q FD "$HOME_DIR/events" || fail "no ibv_asyncwatch: $(cat "$HOME_DIR/events")"
	expect 0 weft link down $device
	says "$device is down"
	within 20 grep -q " (10), port 1" "$HOME_DIR/events" || fail "no event: $(cat "$HOME_DIR/events")"
	is_state $device DOWN || fail "weft devices shows $device $(state_of $device)"
	is_state $other ACTIVE || fail "weft devices shows $other $(state_of $other)"
	out=$(ours ibv_devinfo -d $device)
	says "PORT_DOWN (1)"
	[ "$(port_file $device state)" = "1: DOWN" ] || fail "/sys shows $(port_file $device state)"
	[ "$(port_file $device phys_state)" = "3: Disabled" ] || fail "/sys shows $(port_file $device phys_state)"
	[ "$(port_file $other state)" = "4: ACTIVE" ] || fail "/sys shows $(port_file $other state) for $other"
	expect 0 weft status
	says "stays when idle"
	# it stays when programs have gone and the next weftd comes
	kill -9 "$(daemons)"
	out=$(ours ibv_devinfo -d $device)
	says "PORT_DOWN (1)"
	expect 0 weft link --json up $device
	says '"state": "ACTIVE"'
	within 20 grep -q " (9), port 1" "$HOME_DIR/events" || fail "no event: $(cat "$HOME_DIR/events")"
	kill $watcher
	wait $watcher 2>/dev/null
	rm "$HOME_DIR/events"

	# a connection survives what its retries bridge, and goes on: each waits 67 ms at least, and there are seven
	export WEFT_PATH=$([ $device = weft0 ] && echo auto || echo packet)
	start ibv_rc_pingpong -d $device -g 0 -n 1000000000
	within 20 has_sent_more 1000000 || fail "the pingpong does not begin: $(cat "$HOME_DIR"/{server,client})"
	expect 0 weft link down $device --for 20ms
	within 20 is_state $device ACTIVE || fail "$device stays down"
	before=$(sent)
	within 20 has_sent_more "$((before + 1000000))" || fail "nothing comes back: $(cat "$HOME_DIR"/{server,client})"
	# and ends by what they do not
	expect 0 weft link down $device
	within 60 a_side_says "transport retry counter exceeded" || fail "no end says that its peer is lost"
	# which is told while the programs live, and when they have ended
	within 20 eval 'weft qp --history | grep -q "RETRY_EXC_ERR  the port is down"' ||
		fail "the history is: $(weft qp --history)"
	stop
	within 20 eval '[ "$(weft qp --json | grep -c \"qpn\")" = 0 ]' || fail "the pingpong stays"
	expect 0 weft qp --history
	says "RETRY_EXC_ERR  the port is down"
	expect 0 weft qp --history --json
	says '"has_left": true'
	says '"side": "requester"'
	# datagrams are lost, without an error
	start ibv_ud_pingpong -d $device -g 0 -n 10
	within 20 eval 'has_sent_more 1000' || fail "no datagram is sent"
	within 20 eval '[ "$(weft qp | grep -c RTS)" = 2 ]' || fail "a datagram that is lost stops a QP: $(weft qp)"
	stop
	expect 0 weft link up $device
	start ibv_ud_pingpong -d $device -g 0 -n 10
	ends_well ibv_ud_pingpong
	unset WEFT_PATH

	# RDMA writes, which need nobody at the other end
	if command -v ib_write_bw >/dev/null && [ -z "${WEFT_TEST_PRELOAD-}" ]; then
		start ib_write_bw -d $device -D 100
		within 20 has_sent_more 10000000 || fail "ib_write_bw does not begin: $(cat "$HOME_DIR"/{server,client})"
		expect 0 weft link down $device
		within 60 a_side_says "Failed status 12" || fail "ib_write_bw goes on: $(cat "$HOME_DIR/client")"
		expect 0 weft link up $device
		stop
	fi
done

# down when a program begins, up again while it asks for its peer
if command -v rping >/dev/null; then
	port=$(free_port)
	"$BIN/weft" run -- rping -s -a 127.0.0.1 -p "$port" -C 3 >"$HOME_DIR/server" 2>&1 &
	programs=($!)
	within 20 eval 'weft status --json | grep -q "\"listeners\": 1"' || fail "rping does not listen: $(weft status --json)"
	expect 0 weft link down weft1 --for 100ms
	"$BIN/weft" run -- rping -c -a 127.0.0.1 -p "$port" -C 3 >"$HOME_DIR/client" 2>&1 &
	programs+=($!)
	ends_well rping
fi
finish
