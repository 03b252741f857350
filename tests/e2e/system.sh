#!/bin/bash
# One weftd for all users: root starts and ends it, everybody uses it, and sees of the others no more than the addresses.
. "${0%/*}/lib.sh"
[ "$(id -u)" = 0 ] || { rmdir "$HOME_DIR"; echo "skipped: only root can start it"; exit 77; }
chmod 755 "$HOME_DIR"
DIRECT=${BIN%/bin}/tests/e2e/e2e_direct
STRANGER=${BIN%/bin}/tests/e2e/e2e_stranger
PAIR=${BIN%/bin}/tests/e2e/e2e_pair
DEAF=${BIN%/bin}/tests/e2e/e2e_deaf

user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$BIN/$1" "${@:2}"; }

expect 1 user weftd --system
says "root"
expect 1 user weft run --system -- true
says "next: have root run"
expect 0 weft up --system
[ "$(stat -c %a "$WEFT_DIR") $(stat -c %a "$WEFT_DIR/ctl")" = "1755 666" ] || fail "wrong modes: $(ls -la "$WEFT_DIR")"

expect 0 user weft run --system -- cat /sys/class/infiniband/weft0/node_guid
expect 0 user weft devices --system
says weft1
expect 0 user weft status --system --json
expect 0 user weft qp --system
expect 1 user weft up --system
says "next: "
expect 1 user weft down --system --force
says "not permitted"

# a program of weft run finds it by WEFT_DIR alone
expect 0 user weft run --system -- "$BIN/weft" status

# data between two users, and between processes that nobody may look into: all by packets
expect 0 env WEFT_TEST_LIMIT=user "$DIRECT" mix 300 5
expect 0 env WEFT_TEST_LIMIT=undumpable setpriv --reuid 65534 --regid 65534 --clear-groups "$DIRECT" mix 300 6
# a server's port is nobody else's, by whatever address
listens() { weft status --system --json | grep -q '"listeners": *1'; }
if command -v rping >/dev/null; then
	weft run --system -- rping -s -a 0.0.0.0 -p 7302 -C 3 >"$HOME_DIR/server" 2>&1 &
	server=$!
	within 10 listens || fail "rping does not listen: $(cat "$HOME_DIR/server")"
	expect 0 setpriv --reuid 65534 --regid 65534 --clear-groups "${BIN%/bin}/tests/e2e/e2e_intruder" 7302 ipv4
	# nor are its faults, and the links are the owner's
	pid=$(weft status --system --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["processes"][0]["pid"])')
	expect 1 user weft impair --system "$pid" loss=5%
	says "process $pid is not yours"
	expect 1 user weft link --system down weft1
	says "not yours to change"
	expect 0 weft impair --system show
	says "no process is impaired"
	expect 0 weft impair --system "$pid" loss=1%
	expect 0 weft impair --system show "$pid"
	says "loss=1%"
	expect 0 user weft run --system -- rping -c -a 127.0.0.1 -p 7302 -C 3
	wait $server || fail "the server of rping ends with $?: $(cat "$HOME_DIR/server")"
	rm "$HOME_DIR/server"

	weft run --system -- rping -s -a :: -p 7303 -C 3 >"$HOME_DIR/server" 2>&1 &
	server=$!
	within 10 listens || fail "rping does not listen: $(cat "$HOME_DIR/server")"
	expect 0 setpriv --reuid 65534 --regid 65534 --clear-groups "${BIN%/bin}/tests/e2e/e2e_intruder" 7303
	expect 0 user weft run --system -- rping -c -a 127.0.0.1 -p 7303 -C 3
	wait $server || fail "the server of rping ends with $?: $(cat "$HOME_DIR/server")"
	rm "$HOME_DIR/server"
fi

# a third user who knows all numbers of a connection is not heard
expect 0 env WEFT_TEST_LIMIT=user "$STRANGER"
says "packets dropped"
# one of another user that is stopped does not stop who sends to others too
expect 0 env WEFT_TEST_LIMIT=user "$DEAF" group
expect 0 env WEFT_TEST_LIMIT=user "$DEAF" single
# two users who sleep wake each other
expect 0 env WEFT_TEST_LIMIT=user "$PAIR" event 8 300

# a fabric is the owner's to change, and its QP0
if command -v smpquery >/dev/null; then
	weft fabric make star hosts=2 >"$HOME_DIR/net"
	expect 1 user weft fabric load --system "$HOME_DIR/net"
	expect 0 weft fabric load --system --routing auto "$HOME_DIR/net"
	expect 0 weft run --system --node h1 -- smpquery nodedesc -D 0
	says h1
	expect 0 user weft run --system --node h2 -- ibv_devinfo -d weft0
	says PORT_ACTIVE
	expect 255 user weft run --system --node h2 -- smpquery -t 100 nodedesc -D 0
	expect 1 user weft fabric link --system h1:1 down
	says "not yours to change"
	rm "$HOME_DIR/net"
fi
expect 0 weft down --system --force

# another user's weftd is nobody else's, except root's
mkdir -m 700 "$HOME_DIR/own"
chown 65534:65534 "$HOME_DIR/own"
export WEFT_DIR=$HOME_DIR/own/run
expect 0 user weft up
expect 1 weft status
says "belongs to another user"
expect 0 user weft down
rmdir "$HOME_DIR/own"

# where nobody is mapped all users look alike, and a directory of nobody's is anybody's
mkdir -m 755 "$HOME_DIR/own"
chown 20001:20001 "$HOME_DIR/own"
export WEFT_DIR=$HOME_DIR/own
if setpriv --reuid 20002 --regid 20002 --clear-groups unshare --user true 2>/dev/null; then
	for command in "weft status" "weft run -- true" "weftd --foreground"; do
		# shellcheck disable=SC2086
		expect 1 setpriv --reuid 20002 --regid 20002 --clear-groups unshare --user "$BIN/"$command
		says "not mapped"
	done
fi
rmdir "$HOME_DIR/own"

finish
