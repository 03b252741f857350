#!/bin/bash
# Three hosts, each a network namespace with a weftd of its own, at one switch: programs of others between all of them, and what
# the two others see when something of one dies. hosts_three.sh BIN FLOW ROW...
# Exit 77: no namespaces, or no such programs here.
# shellcheck disable=SC2317 # rows are called by their names
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"
FLOW=$1
shift

# How many processes of the host have any of this: listeners, groups.
have()
{
	on "$1" "$BIN/weft" status --json | python3 -c 'import json, sys
print(len([p for p in json.load(sys.stdin).get("processes", []) if p[sys.argv[1]]]))' "$2"
}
count_is() { [ "$(have "$1" "$2")" = "$3" ]; }

# Each host is a server for the two others at once. rping's own server of many clients takes one request for another when two come
# at once, so there is a server for each client.
cm()
{
	local i peer servers=() clients=()
	needs rping
	for i in 01 02 10 12 20 21; do
		peer=${i#?}
		on "$peer" timeout 60 "$BIN/weft" run -- rping -s -C 30 -a "10.7.0.$((peer + 1))" -p "717${i%?}" \
			>"$tmp/server$i" 2>&1 &
		servers+=($!)
	done
	for i in 0 1 2; do
		within count_is "$i" listeners 2 || fail "no servers at host $i: $(cat "$tmp"/server?"$i")"
	done
	for i in 01 02 10 12 20 21; do
		peer=${i#?}
		on "${i%?}" timeout 60 "$BIN/weft" run -- rping -c -V -C 30 -a "10.7.0.$((peer + 1))" -p "717${i%?}" \
			>"$tmp/client$i" 2>&1 &
		clients+=($!)
	done
	for i in "${clients[@]}"; do
		wait "$i" || fail "a client ends with $?: $(cat "$tmp"/client?? "$tmp"/server??)"
	done
	wait "${servers[@]}"	# with an error: the client leaves first
	grep -L "DISCONNECT EVENT" "$tmp"/server?? | grep . && fail "a server was not told of the end"
	echo "$row: six clients and their servers"
}

# Who sends is at one host, members are at the two others; the third leaves, and the second goes on.
mckey()
{
	local i pids=()
	needs mckey stdbuf
	for i in 1 2; do
		on $i timeout 60 "$BIN/weft" run --stats="$tmp/stats.$i" -- stdbuf -oL mckey -m 239.2.3.4 \
			-b 10.7.0.$((i + 1)) -C $((10 * (3 - i))) >"$tmp/member$i" 2>&1 &
		pids[i]=$!
	done
	for i in 1 2; do
		within has_joined member$i || fail "no member at host $i: $(cat "$tmp/member$i")"
	done
	on 0 timeout 60 "$BIN/weft" run -- mckey -m 239.2.3.4 -b 10.7.0.1 -s -C 10 >"$tmp/sender" 2>&1 ||
		fail "the sender: $(cat "$tmp/sender")"
	wait "${pids[2]}" || fail "the member of the third host: $(cat "$tmp/member2")"
	within count_is 2 groups 0 || fail "the third host keeps its group"
	on 0 timeout 60 "$BIN/weft" run -- mckey -m 239.2.3.4 -b 10.7.0.1 -s -C 10 >"$tmp/sender" 2>&1 ||
		fail "the sender: $(cat "$tmp/sender")"
	wait "${pids[1]}" || fail "the member of the second host: $(cat "$tmp/member1")"
	echo "$row: $(tail -1 "$tmp/member2")"
}

# flow NAME HOST PEER GID...: one end of a flow between two hosts
flow=()
ends()
{
	local name=$1 a=$2 b=$3 timeout=$4 i
	mkdir "$tmp/$name"
	for i in "$a $b" "$b $a"; do
		# shellcheck disable=SC2086 # two words
		set -- $i
		on "$1" "$BIN/weft" run -- "$FLOW" "$tmp/$name" "end$1" "end$2" "${gid[$1]}" "$timeout" >"$tmp/$name/out$1" 2>&1 &
		flow+=($!)
	done
}
completed() { cat "$tmp/$1/end$2.count" 2>/dev/null || echo 0; }
has_moved() { [ "$(completed "$1" "$2")" -gt "$3" ]; }
moves()
{
	local i
	for i in "$2" "$3" "$2" "$3"; do
		within has_moved "$1" "$i" "$(completed "$1" "$i")" || fail "$1: end $i does not get on: $(cat "$tmp/$1/out$i")"
	done
}
pid_of() { pgrep -f "$FLOW $tmp/$1 end$2 "; }

# Three connections, one between each two. A process of the third host is killed, and its weftd: its peer hears, the others go on.
killed()
{
	local i gid=() peer
	for i in 0 1 2; do
		gid[i]=$(gid_of $i ::ffff:10.7.0.$((i + 1)))
	done
	ends ab 0 1 19
	ends bc 1 2 15
	ends ca 2 0 19
	moves ab 0 1
	moves bc 1 2
	moves ca 2 0
	kill -KILL "$(pid_of bc 2)" "$(weftd_of 2)"
	wait "${flow[2]}"
	[ $? = 3 ] || fail "the peer of who was killed: $(cat "$tmp/bc/out1")"
	moves ab 0 1
	moves ca 2 0
	for peer in "ab 0" "ab 1" "ca 0" "ca 2"; do
		# shellcheck disable=SC2086 # two words
		kill -TERM "$(pid_of $peer)"
	done
	for i in 0 1 4 5; do
		wait "${flow[i]}" || fail "who goes on: $(cat "$tmp"/ab/out? "$tmp"/ca/out?)"
	done
	echo "$row: $(tail -1 "$tmp/ab/out0")"
}

three_hosts
for row in "$@"; do
	$row
	nothing_is_left
done
exit $failed
