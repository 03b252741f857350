#!/bin/bash
# Two hosts, each a network namespace with a weftd of its own, that change while data flows between them: what was posted
# completes, with success or with the error that the standard has for it, and nothing is left. hosts_change.sh BIN FLOW ROW...
# Exit 77: no namespaces, or no such programs here.
# shellcheck disable=SC2317 # rows are called by their names
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"
FLOW=$1
shift

flow=()

# start HOST ACK_TIMEOUT [SUBNET [SERVER]]: one end of the flow, with an alternate path. It becomes the process of the subshell.
start()
{
	local gid alternate there=()
	gid=$(gid_of "$1" "::ffff:10.7.0.$(($1 + 1))")
	alternate=${3:+$(gid_of "$1" "::ffff:$3.$(($1 + 1))")}
	[ "$1" = 0 ] || there=(nsenter -t "$far" -n)
	WEFT_DIR=$tmp/$1 "${there[@]}" "$BIN/weft" run -- "$FLOW" "$tmp" "end$1" "end$((1 - $1))" "$gid" "$2" \
		${alternate:+"$alternate"} ${4:+"$4"} \
		>"$tmp/flow$1" 2>&1 &
	flow[$1]=$!
}

completed() { cat "$tmp/end$1.count" 2>/dev/null || echo 0; }
has_moved() { [ "$(completed "$1")" -gt "$2" ]; }

# Both ends get on. Their counts may have been written before the change, so they must grow twice.
moves()
{
	local i
	for i in 0 1 0 1; do
		within has_moved "$i" "$(completed "$i")" || fail "end $i does not get on: $(cat "$tmp/flow$i")"
	done
}

# flows ACK_TIMEOUT [SUBNET [SERVER]]: data flows; by rdma_cm, where there is a server
flows()
{
	rm -f "$tmp"/end?.*
	start 0 "$@"
	start 1 "$@"
	moves
}

# ends HOST STATUS: as flow.c says it, and every request has completed
ends()
{
	wait "${flow[$1]}"
	local got=$?
	[ "$got" = "$2" ] || fail "end $1 ends with $got, not $2: $(cat "$tmp/flow$1")"
	echo "$row: end $1: $(tail -1 "$tmp/flow$1")"
}

# Nothing failed until now, and both are told to end.
all_is_well()
{
	moves
	kill -TERM "${flow[@]}"
	ends 0 0
	ends 1 0
}

# The other end is gone for good: an end has the error of that, and flushes the rest.
has_failed()
{
	ends "$1" 3
	grep -q "1 transport retry counter exceeded" "$tmp/flow$1" || fail "end $1: $(cat "$tmp/flow$1")"
}

has_gid() { [ -n "$(gid_of "$1" "$2" 2>/dev/null)" ]; }
has_no_gid() { ! has_gid "$@"; }

# ---- the rows ----

# The link is cut and comes back before the retries are over. The peer sees that it has no carrier.
cut()
{
	flows 19
	ip link set w0 down
	within has_no_gid 0 ::ffff:10.7.0.1 || fail "the address stays"
	ip link set w0 up
	within has_gid 0 ::ffff:10.7.0.1 || fail "the address does not come back"
	all_is_well
}

# The same for longer than all retries.
cut_for_good()
{
	flows 17
	ip link set w0 down
	has_failed 0
	has_failed 1
	ip link set w0 up
	within has_gid 0 ::ffff:10.7.0.1 || fail "the address does not come back"
	flows 19
	all_is_well
}

# is_at HOST WORDS...: the state of migration of that end, and how often it has migrated
is_at()
{
	local host=$1
	shift
	[ "$(cat "$tmp/end$host.path" 2>/dev/null)" = "$*" ]
}

# are_at WORDS...: both
are_at()
{
	local i
	for i in 0 1; do
		within is_at $i "$@" || fail "end $i is $(cat "$tmp/end$i.path" "$tmp/flow$i"), not $*"
	done
}

# A second wire between the hosts, with addresses of its own.
second_wire()
{
	local i
	[ -e /sys/class/net/w2 ] || ip link add w2 type veth peer name w3 netns "$far" || skip "no second wire can be made here"
	for i in 0 1; do
		on $i ip link set w$((i + 2)) mtu 1500 up
		on $i ip addr replace 10.8.0.$((i + 1))/24 dev w$((i + 2))
		within has_gid $i ::ffff:10.8.0.$((i + 1)) || fail "the second address does not come"
	done
}

# The link is cut for good, and both ends go on by their second addresses; or one of them wants it so.
migrated()
{
	second_wire
	flows 15 10.8.0
	are_at armed 0
	ip link set w0 down
	are_at migrated 1
	all_is_well
	ip link set w0 up
	within has_gid 0 ::ffff:10.7.0.1 || fail "the address does not come back"
	flows 15 10.8.0
	are_at armed 0
	kill -USR1 "${flow[1]}"
	are_at migrated 1
	ip link set w0 down
	all_is_well
	ip link set w0 up
	within has_gid 0 ::ffff:10.7.0.1 || fail "the address does not come back"
}

# The same of a connection whose REQ offers the second path; it ends by that path, too.
cm_migrated()
{
	second_wire
	flows 15 10.8.0 10.7.0.2
	are_at armed 0
	ip link set w0 down
	are_at migrated 1
	all_is_well
	ip link set w0 up
	within has_gid 0 ::ffff:10.7.0.1 || fail "the address does not come back"
}

# The address goes, and others connect by another one; what uses the old one fails.
address()
{
	flows 17
	ip addr del 10.7.0.1/24 dev w0
	has_failed 0
	has_failed 1
	within has_no_gid 0 ::ffff:10.7.0.1 || fail "the address stays"
	ip addr add 10.7.0.1/24 dev w0
	within has_gid 0 ::ffff:10.7.0.1 || fail "the address does not come back"
	flows 19
	all_is_well
}

# The address goes and comes back.
address_back()
{
	flows 19
	ip addr del 10.7.0.1/24 dev w0
	within has_no_gid 0 ::ffff:10.7.0.1 || fail "the address stays"
	ip addr add 10.7.0.1/24 dev w0
	all_is_well
}

# A smaller MTU that holds the packets does nothing; one that does not is told, and cuts them off.
mtu()
{
	flows 17
	ip link set w0 mtu 1300
	moves
	ip link set w0 mtu 800
	has_failed 0
	grep -q "packets are too long for their way to another host, whose MTU is 800 bytes" "$tmp/flow0" ||
		fail "it is not told: $(cat "$tmp/flow0")"
	has_failed 1
	ip link set w0 mtu 1500
	flows 19
	all_is_well
}

# is_another PID [HOST]
is_another()
{
	local pid
	pid=$(weftd_of "${2:-1}")
	[ -n "$pid" ] && [ "$pid" != "$1" ]
}

has_socket() { on "$1" "$BIN/weft" status | grep -q "open to other hosts, for 1 processes"; }

# next_weftd OLD: there is one, and the process has come back and has a socket of it
next_weftd()
{
	within is_another "$1" || fail "there is no next weftd"
	within has_socket 1 || fail "the next weftd has given no socket: $(on 1 "$BIN/weft" status)"
}

# weftd is killed, and the process starts the next one.
weftd_killed()
{
	local old
	flows 19
	old=$(weftd_of 1)
	kill -KILL "$old"
	moves
	next_weftd "$old"
	all_is_well
}

is_away() { [ ! -e "/proc/$1" ]; }

# weftd ends, data flows without one, and somebody starts the next one.
restart()
{
	local old
	flows 19
	old=$(weftd_of 1)
	kill -TERM "$old"
	within is_away "$old" || fail "weftd does not end"
	moves
	[ -z "$(weftd_of 1)" ] || fail "there is a weftd already"
	on 1 "$BIN/weft" up || fail "the next weftd does not start"
	next_weftd "$old"
	all_is_well
}

process_killed()
{
	flows 17
	kill -KILL "${flow[1]}"
	wait "${flow[1]}"
	has_failed 0
}

both_killed()
{
	local old
	flows 17
	old=$(weftd_of 1)
	kill -KILL "${flow[1]}" "$old"
	wait "${flow[1]}"
	has_failed 0
	flows 19
	all_is_well
}

listens()
{
	on 1 "$BIN/weft" status --json | python3 -c 'import json, sys
sys.exit(not any(p["listeners"] for p in json.load(sys.stdin).get("processes", [])))'
}

# weftd is killed while a connection of rdma_cm is used, and then the process is: the next weftd tells the peer.
cm()
{
	local server client old
	command -v rping >/dev/null || skip "no rping here"
	on 1 "$BIN/weft" run -- rping -s -a 10.7.0.2 -C 1000000 >"$tmp/server" 2>&1 &
	server=$!
	within listens || fail "no server: $(cat "$tmp/server")"
	WEFT_DIR=$tmp/0 "$BIN/weft" run -- rping -c -v -a 10.7.0.2 -C 1000000 >"$tmp/client" 2>&1 &
	client=$!
	within grep -q "ping data" "$tmp/client" || fail "no client: $(cat "$tmp/client")"
	old=$(weftd_of 0)
	kill -KILL "$old"
	within is_another "$old" 0 || fail "there is no next weftd"
	within has_socket 0 || fail "the next weftd has given no socket: $(on 0 "$BIN/weft" status)"
	kill -KILL "$client"
	wait "$client"
	wait "$server"	# its status is an error: the client did not end as agreed
	grep -q "DISCONNECT EVENT" "$tmp/server" || fail "the server: $(tail -3 "$tmp/server")"
}

wire 1024
for row in "$@"; do
	$row
	nothing_is_left
done
exit $failed
