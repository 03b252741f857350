#!/bin/bash
# weft1's GIDs follow the host's addresses: in a network namespace of our own.
if [ "${2-}" != inside ]; then
	[ "$(id -u)" = 0 ] || { echo "skipped: needs root for a network namespace"; exit 77; }
	command -v ip >/dev/null || { echo "skipped: no ip command here"; exit 77; }
	unshare -n true || { echo "skipped: no network namespaces here"; exit 77; }
	exec unshare -n "$0" "$1" inside
fi
. "${0%/*}/lib.sh"

# gids: index and address of weft1's, one a line
gids() {
	weft devices --json | python3 -c '
import json, sys
for gid in json.load(sys.stdin)["devices"][1]["gids"][1:]:
    print(gid["index"], gid["gid"], gid["interface"])'
}
are() { [ "$(gids)" = "$1" ]; }
expect_gids() { within 5 are "$1" || fail "the GIDs are '$(gids)', not '$1'"; }
in_tree() { grep -qx "$2" "$WEFT_DIR/made-by-weft/devices/sys/class/infiniband/weft1/ports/1/$1"; }

expect 0 weft up
expect_gids ""
ip link set lo up
expect_gids "1 ::ffff:127.0.0.1 lo"
in_tree gids/1 0000:0000:0000:0000:0000:ffff:7f00:0001 || fail "127.0.0.1 is not in the tree"
in_tree gid_attrs/ndevs/0 lo || fail "the device's own GID has no interface"

ip link add weftveth0 type veth peer name weftveth1 2>/dev/null || ip link add weftveth0 type dummy ||
	{ echo "skipped: neither veth nor dummy interfaces here"; weft down; exit 77; }
echo 1 >/proc/sys/net/ipv6/conf/weftveth0/disable_ipv6
ip address add 10.1.2.3/24 dev weftveth0
ip link set weftveth0 up
# connections of this host may be at 127.0.0.1, so it stays
expect_gids "1 ::ffff:127.0.0.1 lo
2 ::ffff:10.1.2.3 weftveth0"
in_tree gids/2 0000:0000:0000:0000:0000:ffff:0a01:0203 || fail "10.1.2.3 is not in the tree"
# who watches for events is told
"$BIN/weft" run -- ibv_asyncwatch -d weft1 >"$HOME_DIR/watched" 2>&1 &
watcher=$!
within 10 grep -qs 'async event FD' "$HOME_DIR/watched" || fail "ibv_asyncwatch does not watch: $(cat "$HOME_DIR/watched")"
grep -q 'event_type' "$HOME_DIR/watched" && fail "there is an event before anything changed: $(cat "$HOME_DIR/watched")"
ip address add 10.1.2.4/24 dev weftveth0
within 10 grep -q 'event_type IBV_EVENT_GID_CHANGE' "$HOME_DIR/watched" ||
	fail "no event of the new address: $(cat "$HOME_DIR/watched")"
kill "$watcher"
wait "$watcher" 2>/dev/null
rm "$HOME_DIR/watched"
expect_gids "1 ::ffff:127.0.0.1 lo
2 ::ffff:10.1.2.3 weftveth0
3 ::ffff:10.1.2.4 weftveth0"

# an address that stays keeps its index (10.1.2.4 is secondary: it goes with the first unless promoted)
echo 1 >/proc/sys/net/ipv4/conf/weftveth0/promote_secondaries
ip address del 10.1.2.3/24 dev weftveth0
expect_gids "1 ::ffff:127.0.0.1 lo
3 ::ffff:10.1.2.4 weftveth0"
in_tree gids/2 0000:0000:0000:0000:0000:0000:0000:0000 || fail "the address that went is still in the tree"
ip link set weftveth0 down
expect_gids "1 ::ffff:127.0.0.1 lo"
expect 0 weft down
finish
