#!/bin/bash
# weftd leaves when nobody needs it, stays while somebody does, and nothing of it or of its clients stays behind.
. "${0%/*}/lib.sh"

shared_memory() { ls /dev/shm 2>/dev/null | grep -c weft; }
before=$(shared_memory)

# Returns when the idle time has passed for a weftd that nobody needs and that came after what the test has done: twice, as the
# first may have been quick.
idle_passes() {
	for i in 1 2; do
		WEFT_DIR=$HOME_DIR/clock weft run -- true
		within 30 gone "$HOME_DIR/clock" || fail "the weftd that tells the time does not leave"
	done
}

# the idle time after the last program
expect 0 weft run -- true
[ -S "$WEFT_DIR/ctl" ] || fail "weftd does not run after weft run"
within 8 gone "$WEFT_DIR" || fail "weftd does not leave when idle"

# it stays as long as a program of weft run, or a child of one, lives
child=$(weft run -- sh -c 'sleep 60 >/dev/null & echo $!')
idle_passes
[ -S "$WEFT_DIR/ctl" ] || fail "weftd leaves while a program lives"
kill "$child"
within 5 gone "$WEFT_DIR" || fail "weftd does not leave after the last child"

# weft up keeps it
expect 0 weft up
idle_passes
[ -S "$WEFT_DIR/ctl" ] || fail "weft up does not keep weftd"
expect 0 weft up
expect 0 weft down
[ -e "$WEFT_DIR" ] && fail "weft down returns before weftd is gone"
expect 0 weft down
says "does not run"

# on demand first, kept later
expect 0 weft run -- true
expect 0 weft up
idle_passes
[ -S "$WEFT_DIR/ctl" ] || fail "weft up does not keep a weftd that runs"

# in use
"$BIN/weft" run -- sleep 60 &
sleeper=$!
within 5 sh -c "'$BIN/weft' status | grep -q '1 programs'" || fail "weft status does not show the program"
expect 1 weft down
says "1 programs"
says "next: "
expect 0 weft down --force
kill "$sleeper"
wait "$sleeper" 2>/dev/null

# killed in the middle
"$BIN/weft" run -- sleep 60 &
sleeper=$!
within 5 test -S "$WEFT_DIR/ctl"
within 5 sh -c "'$BIN/weft' status | grep -q '1 programs'"
kill -9 "$sleeper"
wait "$sleeper" 2>/dev/null
within 8 gone "$WEFT_DIR" || fail "weftd does not leave after a killed program"

# weftd keeps nothing of its caller open: this would wait for it
out=$(weft up)
expect 0 weft down

[ "$(shared_memory)" = "$before" ] || fail "objects in /dev/shm are left"
finish
