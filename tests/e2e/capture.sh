#!/bin/bash
# weft capture: frames of programs that run, by which they take packets and after which the direct path again.
. "${0%/*}/lib.sh"
skip() { rmdir "$HOME_DIR"; echo "SKIP: $*"; exit 77; }
command -v ibv_rc_pingpong >/dev/null || skip "no ibv_rc_pingpong here"
command -v tshark >/dev/null || skip "no tshark here: scripts/setup test"
mkdir "$HOME_DIR/home"
export HOME=$HOME_DIR/home	# no preferences of who runs the tests

path_is() { [ "$(weft qp --json | grep -c "\"path\": \"$1")" = "$2" ]; }
member() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$HOME_DIR/json" "$1"; }
holds() { [ "$(stat -c %s "$HOME_DIR/pcap" 2>/dev/null || echo 0)" -gt "$1" ]; }
# frames: what tshark makes of the file, a frame a line: opcode, what is malformed, interface
frames() {
	tshark -r "$HOME_DIR/pcap" -T fields -E separator=, -E aggregator=/ -e infiniband.bth.opcode -e _ws.malformed \
		-e frame.interface_name >"$HOME_DIR/frames" 2>"$HOME_DIR/tshark"
}
count() { grep -cE "$1" "$HOME_DIR/frames"; }
# start PATH: until the pingpong goes by this path
start() {
	local port
	port=$(free_port)
	"$BIN/weft" run -- ibv_rc_pingpong -d $device -g 0 -s 64 -n 1000000000 -p "$port" >"$HOME_DIR/server" 2>&1 &
	server=$!
	within 60 is_listening "$port" || fail "no server: $(cat "$HOME_DIR/server")"
	"$BIN/weft" run -- ibv_rc_pingpong -d $device -g 0 -s 64 -n 1000000000 -p "$port" 127.0.0.1 >"$HOME_DIR/client" 2>&1 &
	client=$!
	within 60 path_is "$1" 2 || fail "the pingpong does not begin: $(cat "$HOME_DIR"/{server,client})"
}
stop() {
	kill "$server" "$client" 2>/dev/null
	wait "$server" "$client" 2>/dev/null
	rm -f "$HOME_DIR"/{server,client}
}
# capture ARGUMENT...: in the background, with its result in json
# What the one before has said is gone at once, whenever this one begins.
capture() {
	: >"$HOME_DIR/errors"
	"$BIN/weft" capture --json "$HOME_DIR/pcap" "$@" >"$HOME_DIR/json" 2>"$HOME_DIR/errors" & pid=$!
}
ends() { wait $pid || fail "the capture ends with $?: $(cat "$HOME_DIR/errors")"; }

# mistakes
expect 2 weft capture
expect 2 weft capture "$HOME_DIR/pcap" nobody
says "'nobody' is neither a PID nor all"
expect 2 weft capture --limit 0 "$HOME_DIR/pcap"
expect 2 weft capture --json -
expect 1 weft capture "$HOME_DIR/pcap" 1
says "process 1 is not attached"
gone "$HOME_DIR/pcap" || fail "a capture that is refused makes a file"

for device in weft0 weft1; do
	start direct
	# one of two: its frames, until ^C
	capture "$client"
	within 60 holds 100000 || fail "nothing is captured: $(cat "$HOME_DIR/errors")"
	within 60 path_is packets 2 || fail "there is a direct path: $(weft qp)"
	expect 1 leaks timeout 60 "$BIN/weft" capture "$HOME_DIR/other" "$client"
	says "another weft capture has the frames"
	kill -INT $pid
	ends
	[ "$(member processes)" = 1 ] || fail "there are $(member processes) processes"
	frames
	[ "$(count "^[0-9]+,,$device/ibv_rc_pingpong-$client\$")" = "$(member frames)" ] ||
		fail "tshark knows less than $(member frames) frames: $(head "$HOME_DIR"/{tshark,frames})"
	within 60 path_is direct 2 || fail "there is no direct path again: $(weft qp)"
	# all, up to a number
	capture --count 500 all
	ends
	[ "$(member frames)" = 500 ] || fail "there are $(member frames) frames"
	# up to a limit, which is one of the file
	capture --limit 64K
	ends
	[ "$(member full)" = True ] || fail "the file is not full"
	[ "$(stat -c %s "$HOME_DIR/pcap")" = "$(member bytes)" ] || fail "the file has not $(member bytes) bytes"
	[ "$(member bytes)" -le 65536 ] || fail "the file has $(member bytes) bytes"
	within 60 path_is direct 2 || fail "there is no direct path again: $(weft qp)"
	# the capture of a process ends with it, whatever ends it
	capture "$client"
	within 60 holds 100000 || fail "nothing is captured: $(cat "$HOME_DIR/errors")"
	kill -9 "$client"
	ends
	# who captures may be killed too
	stop
	start direct
	capture all
	within 60 holds 100000 || fail "nothing is captured: $(cat "$HOME_DIR/errors")"
	kill -9 $pid
	wait $pid
	within 60 path_is direct 2 || fail "there is no direct path after kill -9: $(weft qp)"
	stop
done

# nobody reads what is captured: ^C ends it all the same
start direct
mkfifo "$HOME_DIR/pipe"
exec 9<>"$HOME_DIR/pipe"
is_full() {
	python3 -c 'import select, sys; sys.exit(bool(select.select([], [9], [], 0)[1]))'
}
"$BIN/weft" capture - >"$HOME_DIR/pipe" 2>"$HOME_DIR/errors" 9>&- &
pid=$!
within 60 is_full || fail "the pipe is not full: $(cat "$HOME_DIR/errors")"
kill -INT $pid
wait $pid && fail "a capture of which nobody has read all ends well"
grep -q 'ends early: nobody reads it' "$HOME_DIR/errors" || fail "weft capture says $(cat "$HOME_DIR/errors")"
exec 9>&-
rm "$HOME_DIR/pipe"
stop

# programs that come later
capture all
within 60 grep -q capturing "$HOME_DIR/errors" || fail "no capture: $(cat "$HOME_DIR/errors")"
start packets
within 60 holds 100000 || fail "nothing is captured: $(cat "$HOME_DIR/errors")"
kill -TERM $pid
ends
[ "$(member processes)" = 2 ] || fail "there are $(member processes) processes"
stop
# weftd that is killed ends it
capture all
within 60 grep -q capturing "$HOME_DIR/errors" || fail "no capture: $(cat "$HOME_DIR/errors")"
# shellcheck disable=SC2046
kill -9 $(daemons)
ends
weft down --force >/dev/null 2>&1
rm -rf "${HOME_DIR:?}"/{pcap,tshark,frames,json,errors,home}
finish
