#!/bin/bash
# Exactly one weftd, however many start at once and whatever a killed one left behind.
. "${0%/*}/lib.sh"

# Those of a race that do not serve, and one that has left, have still to exit.
expect_live() { within 5 are_live "$1" || fail "$(daemons | wc -w) weftds live $2"; }

# one of twenty serves, and all of them report success; it stays until it is counted
export WEFT_IDLE_S=60
for round in 1 2 3 4 5; do
	pids=()
	for i in {1..20}; do
		weftd &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "a weftd of the race fails"
	done
	expect_live 1 "after the race"
	expect 0 weft status
	expect 0 weft down
	expect_live 0 "after weft down"
done

# starts that meet a weftd which is just leaving
export WEFT_IDLE_S=0
for i in {1..4}; do
	(for k in {1..15}; do weft run -- true || echo "run $i.$k fails"; done) >"$HOME_DIR/log.$i" 2>&1 &
done
wait
cat "$HOME_DIR"/log.* | grep . && fail "programs do not start while weftd leaves"
rm -f "$HOME_DIR"/log.*
export WEFT_IDLE_S=0.2
expect 0 weft down
expect_live 0 "after weft down"

# what a killed weftd leaves: socket, lock, tree
expect 0 weft up
kill -9 "$(daemons)"
[ -S "$WEFT_DIR/ctl" ] || fail "a killed weftd leaves no socket: is this test right?"
expect 1 weft status
says "does not run"
expect 0 weft run -- cat /sys/class/infiniband/weft0/node_guid
gids=$WEFT_DIR/made-by-weft/devices/sys/class/infiniband/weft1/ports/1/gids
cp "$gids/0" "$gids/63"
kill -9 "$(daemons)"
expect 0 weft run -- cat /sys/class/infiniband_verbs/uverbs1/ibdev
says weft1
[ -e "$gids/63" ] && fail "the tree of a killed weftd is still there"
expect 0 weft down --force
gone "$WEFT_DIR" || fail "weftd leaves something: $(ls -R "$WEFT_DIR")"

# SIGTERM is a clean end
expect 0 weft up
kill "$(daemons)"
within 5 gone "$WEFT_DIR" || fail "SIGTERM leaves something"

finish
