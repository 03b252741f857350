#!/bin/bash
# Multicast between two hosts, each a network namespace with a weftd of its own: mckey, over IP multicast. hosts_mcast.sh BIN
# ROW..., where a row is ipv4 or ipv6.
# Exit 77: no namespaces, or no such programs here.
# shellcheck disable=SC2317 # rows are called by their names
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"

MESSAGES=10
processes=()

# starts NAME HOST ARGUMENT...: mckey at the host, as one process
starts()
{
	local name=$1 host=$2
	shift 2
	on "$host" "$BIN/weft" run --stats="$tmp/stats.$name" -- stdbuf -oL mckey "$@" >"$tmp/$name" 2>&1 &
	processes+=($!)
}

# How many processes of the host are in groups.
members()
{
	on "$1" "$BIN/weft" status --json | python3 -c 'import json, sys
print(len([p for p in json.load(sys.stdin).get("processes", []) if p["groups"]]))'
}

# wait_until WHAT COMMAND...
wait_until()
{
	local what=$1 end=$((SECONDS + 60))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || { fail "$what: not within 60 s"; return 1; }
		sleep 0.05
	done
}

has_members() { [ "$(members "$1")" = "$2" ]; }

# what the processes of this name counted, by a counter's name
counted()
{
	python3 -c 'import re, sys
print(sum(int(n) for n in re.findall(r"%s\s+(\d+)" % sys.argv[2], open(sys.argv[1]).read())))' "$tmp/stats.$1" "$2"
}

# Has weft1 of the second host no address but its link-local one?
has_no_gid()
{
	on 1 "$BIN/weft" devices --json | python3 -c 'import json, sys
gids = next(d["gids"] for d in json.load(sys.stdin)["devices"] if d["name"] == "weft1")
sys.exit(any(g["gid"] == sys.argv[1] for g in gids))' "$gid"
}

# Does the kernel of the second host know a member of the group? As /proc/net tells it.
is_heard() { on 1 cat /proc/net/igmp /proc/net/igmp6 2>/dev/null | grep -qi "$1"; }

# sends GROUP: twice, as who is beside the sender waits for two rounds of messages
sends()
{
	for _ in 1 2; do
		on 0 "$BIN/weft" run -- mckey -m "$1" -b "$here" -s -C $MESSAGES >"$tmp/sender" 2>&1 ||
			fail "the sender: $(cat "$tmp/sender")"
	done
}

# GROUP OTHER AS-THE-KERNEL-WRITES-IT ADDRESS-0 ADDRESS-1 PREFIX: members at the second host and one beside the sender have each
# message once, and a process of another group has none. A member that is killed
# is no member, whatever became of the address by which it was one.
reaches()
{
	local group=$1 other=$2 kernel=$3 here=$4 there=$5 gid=$5 i
	[ "$6" = 64 ] || gid=::ffff:$5
	processes=()
	starts near 0 -m "$group" -b "$here" -C $((2 * MESSAGES))
	starts far1 1 -m "$group" -b "$there" -C $MESSAGES
	starts far2 1 -m "$group" -b "$there" -C $MESSAGES
	starts other 1 -m "$other" -b "$there" -C $((2 * MESSAGES))
	for i in near far1 far2 other; do
		wait_until "the member $i" has_joined $i || cat "$tmp/$i"
	done
	[ "$(members 0) $(members 1)" = "1 3" ] || fail "members: $(members 0) and $(members 1)"
	is_heard "$kernel" || fail "the kernel has no member of $group: $(on 1 cat /proc/net/igmp /proc/net/igmp6)"
	sends "$group"
	for i in 0 1 2; do
		wait "${processes[i]}" || fail "a member: $(cat "$tmp"/near "$tmp"/far?)"
	done
	[ "$(counted far1 wire_received)" -ge $MESSAGES ] || fail "nothing came over the wire: $(cat "$tmp/stats.far1")"
	[ "$(counted near wire_received)" = 0 ] || fail "a message came back: $(cat "$tmp/stats.near")"
	is_heard "$kernel" && fail "members have gone, and the kernel still has one of $group"
	sends "$other"
	wait "${processes[3]}" || fail "the member of the other group: $(cat "$tmp/other")"
	[ "$(counted other wire_received)" = $((2 * MESSAGES)) ] ||
		fail "messages of another group came: $(cat "$tmp/stats.other")"
	starts killed 1 -m "$group" -b "$there"
	starts stays 1 -m "$other" -b "$there"
	wait_until "a member that is to be killed, and one that keeps the port open" has_members 1 2
	on 1 ip addr del "$there/$6" dev w1
	wait_until "the address has gone" has_no_gid
	pkill -KILL -P "${processes[4]}"
	wait_until "the member is gone" has_members 1 1
	is_heard "$kernel" && fail "a member was killed, and the kernel still has one of $group"
	pkill -KILL -P "${processes[5]}"
	wait_until "nobody is left" has_members 1 0
	echo "$row: $(tail -1 "$tmp/far1")"
}

ipv4() { reaches 239.2.3.4 239.2.3.5 040302EF 10.7.0.1 10.7.0.2 24; }

ipv6()
{
	has_family 6
	reaches ff0e::4:5:6 ff0e::4:5:7 ff0e0000000000000000000400050006 fd07::1 fd07::2 64
}

needs mckey stdbuf
for row in "$@"; do
	wire 1024
	$row
done
exit $failed
