#!/bin/bash
# Goodput of ib_write_bw between two hosts over a wire that loses packets: what docs/performance.md shows. No test: nothing fails.
# hosts_goodput.sh BIN [RATE [ROUNDS]]: RATE as tc has it, 1gbit unless it is given, or none. Prints MB/s for each loss: the
# median of the rounds, the least and the most, and the percent of what the wire without losses has.
# Exit 77: no namespaces, or no such programs here.
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"

rate=${1:-1gbit}
rounds=${2:-5}
row=goodput
needs ib_write_bw taskset tc
wire 4096
gid=("$(gid_of 0 ::ffff:10.7.0.1)" "$(gid_of 1 ::ffff:10.7.0.2)")
for i in 0 1; do
	[ "$rate" = none ] || on $i tc qdisc add dev w$i root tbf rate "$rate" burst 32k limit 2m || skip "no queue of tbf here"
done

# one HOST LOSS PROFILE WORD...: ib_write_bw on that host, on a processor of its own
one()
{
	local host=$1 loss=$2 profile=$3
	shift 3
	on "$host" taskset -c "$host" "$BIN/weft" run --impair "weft1.in.loss=$loss%,seed=$round$host" \
		${profile:+"--profile=$profile"} \
		-- ib_write_bw -d weft1 -x "${gid[host]}" -m 4096 -s 65536 -D 2 -F "$@"
}

# measure LOSS PROFILE: MB/s
measure()
{
	local server
	one 1 "$1" "$2" >"$tmp/server" 2>&1 &
	server=$!
	within_life_of $server listens 18515 || { fail "no server: $(cat "$tmp/server")"; exit 1; }
	one 0 "$1" "$2" 10.7.0.2 >"$tmp/client" 2>&1 || { fail "the client: $(cat "$tmp/client")"; exit 1; }
	wait $server
	awk '$1 == 65536 { print $4 }' "$tmp/client"
}

for ((round = 1; round <= rounds; round++)); do
	for loss in 0.0001 0.1 1 2 5; do
		for profile in "" standard,repeat=all; do
			echo "${profile:-selective} $loss $(measure $loss "$profile")"
		done
	done
done | python3 -c 'import collections, statistics, sys
figures = collections.defaultdict(list)
for line in sys.stdin:
    way, loss, rate = line.split()
    figures[way.replace("standard,repeat=all", "go-back"), loss].append(float(rate))
for (way, loss), found in figures.items():
    middle = statistics.median(found)
    percent = 100 * middle / statistics.median(figures[way, "0.0001"])
    print(f"{way:10} {loss:>7} %  {middle:7.1f} MB/s ({min(found):.1f} to {max(found):.1f})  {percent:4.0f} %")'
exit $failed
