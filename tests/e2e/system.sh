#!/bin/bash
# One weftd for all users: root starts and ends it, everybody uses it, and sees of the others no more than the addresses.
. "${0%/*}/lib.sh"
[ "$(id -u)" = 0 ] || { rmdir "$HOME_DIR"; echo "skipped: only root can start it"; exit 77; }
setpriv --reuid 65534 test -x "$BIN/weft" || { rmdir "$HOME_DIR"; echo "skipped: user 65534 cannot reach $BIN"; exit 77; }
chmod 755 "$HOME_DIR"
DIRECT=${BIN%/bin}/tests/e2e/e2e_direct

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

finish
