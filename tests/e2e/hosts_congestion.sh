#!/bin/bash
# Two hosts over a wire that carries little, with a short queue: eight queue pairs lose next to nothing, and marks are told of;
# with --profile standard,congestion=off most of what they send is lost. hosts_congestion.sh BIN BOTTLENECK ROW: marks, plain.
# Exit 77: no namespaces, devices or programs here.
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"

BOTTLENECK=$1
row=$2
needs ib_write_bw
RATE=50000000 ROOM=100000
MARK=0
[ "$row" = marks ] && MARK=16000

ip link del w0
"$BOTTLENECK" "$far" $RATE $ROOM $MARK >>"$tmp/wire" &
bottleneck=$!
until grep -q ready "$tmp/wire"; do
	kill -0 $bottleneck 2>/dev/null || skip "$(sed 's/^SKIP: //' "$tmp/wire")"
	sleep 0.02
done
wire 4096

# member of the reports of host 0, summed or the first
report()
{
	python3 -c 'import json, sys
path, command, member = sys.argv[1:]
rows = [row for p in json.load(open(path))["processes"] for row in (p["qps"] if command == "qp" else [p.get("counters", p)])]
print(sum(row.get(member, 0) for row in rows))' "$tmp/$1" "$2" "$3"
}

# Eight queue pairs write so many messages each; what weft qp said of them last is in $tmp/qps.
transfer()
{
	local server client
	on 1 timeout 100 "$BIN/weft" run --profile "$1" --stats="$tmp/stats.1.json" -- \
		ib_write_bw -d weft1 -x "$(gid_of 1 ::ffff:10.7.0.2)" -m 4096 -s 65536 -n "$2" -q 8 -F >"$tmp/server" 2>&1 &
	server=$!
	within_life_of $server listens 18515 || { fail "the server: $(cat "$tmp/server")"; return; }
	on 0 timeout 100 "$BIN/weft" run --profile "$1" --stats="$tmp/stats.0.json" -- \
		ib_write_bw -d weft1 -x "$(gid_of 0 ::ffff:10.7.0.1)" -m 4096 -s 65536 -n "$2" -q 8 -F 10.7.0.2 \
		>"$tmp/client" 2>&1 &
	client=$!
	rm -f "$tmp/qps"
	while kill -0 $client 2>/dev/null; do
		on 0 "$BIN/weft" qp --json >"$tmp/now" 2>/dev/null
		grep -q '"round_trip_ns": *[1-9]' "$tmp/now" && mv "$tmp/now" "$tmp/qps"
		sleep 0.2
	done
	wait $client || fail "the client: $(cat "$tmp/client")"
	wait $server
}

count()
{
	python3 -c 'import re, sys
print(max(map(int, re.findall(r"\"%s\": ?(\d+)" % sys.argv[2], open(sys.argv[1]).read())), default=0))' "$tmp/stats.$1.json" "$2"
}

# what the wire has dropped, or marked, of host 0's packets since it was asked last
ask_wire()
{
	: >"$tmp/wire"
	kill -USR1 $bottleneck
	until grep -q '^w1' "$tmp/wire"; do sleep 0.02; done
	tr -d '\0' <"$tmp/wire" >"$tmp/told"
	read -r _ _ _ packets _ dropped _ marked _ < <(grep '^w0' "$tmp/told")
}

transfer standard 80
ask_wire
on_packets=$packets
on_dropped=$dropped
echo "on: $packets packets over the wire, $dropped dropped, $marked marked;" \
	"$(count 0 selective_repeats) sent again, $(count 0 probes) to ask; $(count 1 np_ecn_marked_roce_packets) came marked"
if [ -s "$tmp/qps" ]; then
	rate=$(report qps qp rate_bytes_per_s)
	told=$(report qps qp marked)
	echo "weft qp: $told marked, $(report qps qp lost) lost; $rate bytes in a second may leave"
	[ "$rate" -gt 0 ] || fail "nothing is held back"
	[ "$row" != marks ] || [ "$told" -gt 0 ] || fail "the sender does not know of marks"
else
	fail "weft qp shows no round trip"
fi
if [ "$row" = marks ]; then
	[ "$marked" -gt 0 ] || fail "nothing was marked"
	[ "$(count 1 np_ecn_marked_roce_packets)" -gt 0 ] || fail "no packet came marked"
fi

transfer standard,congestion=off 15
ask_wire
echo "off: $packets packets over the wire, $dropped dropped, $marked marked; $(count 0 selective_repeats) sent again"
# a machine that is busy lets the wire itself stand still for longer than its queue holds
[ $((dropped * on_packets)) -gt $((8 * on_dropped * packets)) ] || fail "without it hardly more is dropped"
[ "$marked" = 0 ] || fail "packets say that they may be marked, and nobody obeys"
kill $bottleneck
exit $failed
