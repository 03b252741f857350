#!/bin/bash
# Two hosts, each a network namespace with a weftd of its own, and two wires between them, each of a limited rate: programs that
# others wrote use both, and go on while one is cut. hosts_paths.sh BIN ROW... Exit 77: no namespaces, no tc or programs here.
# The rows figures and tail_latency print what docs/performance.md has, and are no tests.
# shellcheck disable=SC2317 # rows are called by their names
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"
needs tc ib_write_bw

profile=standard
tool=ib_write_bw
connection=RC
has_gid() { [ -n "$(gid_of "$1" "$2" 2>/dev/null)" ]; }

# limit DEVICE HOST [RATE]: so much that two processors carry twice of it
limit() { on "$2" tc qdisc replace dev "$1" root tbf rate "${3:-200mbit}" burst 32k limit 200k || skip "no rate limits here"; }

two_wires()
{
	local i
	wire 1024
	[ -e /sys/class/net/w2 ] || ip link add w2 type veth peer name w3 netns "$far" || skip "no second wire can be made here"
	for i in 0 1; do
		on $i ip link set w$((i + 2)) mtu 1500 up
		on $i ip addr replace 10.8.0.$((i + 1))/24 dev w$((i + 2))
		limit w$i $i
		limit w$((i + 2)) $i
		on $i "$BIN/weft" up >/dev/null || fail "no weftd"
		within has_gid $i ::ffff:10.8.0.$((i + 1)) || fail "the second address does not come"
	done
}

# The wire with the second addresses, or the first, loses all and carries all again.
cut() { on 0 tc qdisc replace dev "$1" root tbf rate 8bit burst 10 limit 10; }
heal() { limit "$1" 0; }

# bandwidth PATHS SECONDS: of the tool from host 0, in MB/s
bandwidth()
{
	local server
	WEFT_DIR=$tmp/1 nsenter -t "$far" -n "$BIN/weft" run --profile "$profile,paths=$1" -- \
		"$tool" -d weft1 -x "$(gid_of 1 ::ffff:10.7.0.2)" -c "$connection" -m 1024 -D "$2" -s 65536 >"$tmp/server" 2>&1 &
	server=$!
	within listens 18515 || fail "no server: $(cat "$tmp/server")"
	on 0 "$BIN/weft" run --stats --profile "$profile,paths=$1" -- \
		"$tool" -d weft1 -x "$(gid_of 0 ::ffff:10.7.0.1)" -c "$connection" -m 1024 -D "$2" -s 65536 \
		10.7.0.2 >"$tmp/client" 2>&1 ||
		fail "the client: $(cat "$tmp/client")"
	wait "$server" || fail "the server: $(cat "$tmp/server")"
	awk '$1 == 65536 { print int($4) }' "$tmp/client"
}

# One wire carries 6.2 MB/s at most, so that machines which others slow down carry both.
sum()
{
	local two i
	for i in 0 1; do
		limit w$i $i 50mbit
		limit w$((i + 2)) $i 50mbit
	done
	two=$(bandwidth 2 6)
	echo "$row: two wires $two MB/s"
	[ "${two:-0}" -ge 7 ] || fail "two wires carry $two MB/s, as one could: $(cat "$tmp/client")"
}

reads()
{
	needs ib_read_bw
	tool=ib_read_bw
	sum
	tool=ib_write_bw
}

# XRC goes by both as well, and goes on while one is cut.
xrc()
{
	connection=XRC
	sum
	cuts
	connection=RC
}

# path_is NUMBER STATE: of the queue pair of host 0, as weft qp says
path_is()
{
	on 0 "$BIN/weft" qp --json | python3 -c 'import json, sys
number, state = sys.argv[1:]
rows = [r for p in json.load(sys.stdin).get("processes", []) for r in p.get("qps", []) if r.get("paths") == 2]
sys.exit(not any(r[f"path{number}_state"] == state and r[f"path{number}_sent"] > 0 for r in rows))' "$1" "$2"
}

# tells PATTERN: weft qp does
tells() { on 0 "$BIN/weft" qp | grep -qE "$1"; }

# A wire is cut while ib_write_bw runs, and heals; then the other one.
cuts()
{
	local result
	bandwidth 2 16 >"$tmp/result" &
	result=$!
	for path in 1 0; do
		wire=w$((2 * path))
		within path_is $path up || fail "path $path is not up: $(on 0 "$BIN/weft" qp)"
		cut $wire
		within path_is $path aside || fail "path $path is not aside: $(on 0 "$BIN/weft" qp)"
		heal $wire
		within path_is $path up || fail "path $path does not come back: $(on 0 "$BIN/weft" qp)"
	done
	within tells "0 up [0-9.]+ MB/s [0-9]+ us [1-9][0-9]* lost, 1 up [0-9.]+ MB/s [0-9]+ us [1-9][0-9]* lost" ||
		fail "weft qp tells of no paths: $(on 0 "$BIN/weft" qp)"
	wait $result
	echo "$row: $(cat "$tmp/result") MB/s; $(grep -E "path_probes|set_aside" "$tmp/client" | tr -s ' ' | tr '\n' ' ')"
	grep -q "paths_set_aside" "$tmp/client" || fail "no path was set aside: $(cat "$tmp/client")"
}

# sees N PATH STATE: weft paths does, of N paths
sees()
{
	on 0 "$BIN/weft" paths --json --count 1 --interval 0.1 | python3 -c 'import json, sys
n, number, state = sys.argv[1:]
rows = json.load(sys.stdin)["paths"]
sys.exit(not (len(rows) == int(n) and any(r["path"] == int(number) and r["state"] == state for r in rows)))' "$@"
}

# The same by weft path, of what this host sends and what the other one does; and of a program that starts later.
fails()
{
	local result
	bandwidth 2 20 >"$tmp/result" &
	result=$!
	for path in 1 0; do
		within sees 2 $path up || fail "path $path is not up: $(on 0 "$BIN/weft" qp)"
		on 0 "$BIN/weft" path 10.7.0.2 fail $path | grep -q "^10.7.0.2: $path fails$" ||
			fail "weft path says something else"
		within sees 2 $path aside || fail "path $path is not aside: $(on 0 "$BIN/weft" qp)"
		on 0 "$BIN/weft" path 10.7.0.2 heal $path | grep -q "no path fails" || fail "weft path says something else"
		within sees 2 $path up || fail "path $path does not come back: $(on 0 "$BIN/weft" qp)"
	done
	wait $result
	grep -q path_cut_packets "$tmp/client" || fail "nothing was cut: $(cat "$tmp/client")"
	on 0 "$BIN/weft" path 10.7.0.2 fail 1 >/dev/null
	[ "$(on 0 "$BIN/weft" path 10.7.0.2 --json | tr -d ' \n')" = '{"schema":1,"host":"10.7.0.2","failing":[1]}' ] ||
		fail "weft path tells $(on 0 "$BIN/weft" path 10.7.0.2 --json)"
	bandwidth 2 12 >"$tmp/result" &
	result=$!
	within sees 2 1 unproven || fail "a path that fails is found: $(on 0 "$BIN/weft" qp)"
	on 0 "$BIN/weft" path 10.7.0.2 heal 1 >/dev/null
	within sees 2 1 up || fail "path 1 does not come: $(on 0 "$BIN/weft" qp)"
	wait $result
	echo "$row: $(cat "$tmp/result") MB/s"
	for usage in "" "10.7.0.2 fail" "10.7.0.2 fail 8" "10.7.0.2 fail x" "10.7.0.2 cut 1"; do
		# shellcheck disable=SC2086
		on 0 "$BIN/weft" path $usage >/dev/null 2>&1
		[ $? = 2 ] || fail "weft path $usage is no error of usage"
	done
}

# The same of a queue pair over the seed's protocol, whose paths are the first wire's.
multipath()
{
	local result
	profile=multipath
	bandwidth 2 20 >"$tmp/result" &
	result=$!
	for path in 1 0; do
		within sees 2 $path good || fail "path $path is not good: $(on 0 "$BIN/weft" qp)"
		on 0 "$BIN/weft" path 10.7.0.2 fail $path >/dev/null
		within sees 2 $path bad || fail "path $path is not bad: $(on 0 "$BIN/weft" qp)"
		on 0 "$BIN/weft" path 10.7.0.2 heal $path >/dev/null
		within sees 2 $path good || fail "path $path does not come back: $(on 0 "$BIN/weft" qp)"
	done
	within tells "0 (good|suspect) free [0-9]+ us [0-9]+ lost, 1 (good|suspect) free" ||
		fail "weft qp tells of no paths: $(on 0 "$BIN/weft" qp)"
	wait $result
	grep -q path_cut_packets "$tmp/client" || fail "nothing was cut: $(cat "$tmp/client")"
	echo "$row: $(cat "$tmp/result") MB/s"
	profile=standard
}

has_pinged() { [ "$(grep -c "ping data" "$tmp/client")" -ge "$1" ]; }

# rping goes on while the wire that it connected over is cut.
pings()
{
	local server client had
	needs rping
	on 1 "$BIN/weft" run --profile standard,paths=2 -- rping -s -a 10.7.0.2 -C 1000000 >"$tmp/server" 2>&1 &
	server=$!
	within hears || fail "no server: $(cat "$tmp/server")"
	WEFT_DIR=$tmp/0 "$BIN/weft" run --profile standard,paths=2 -- rping -c -v -a 10.7.0.2 -C 1000000 >"$tmp/client" 2>&1 &
	client=$!
	within has_pinged 100 || fail "no client: $(tail -3 "$tmp/client")"
	for wire in w0 w2; do
		cut $wire
		had=$(grep -c "ping data" "$tmp/client")
		within has_pinged $((had + 100)) || fail "nothing comes while $wire is cut: $(tail -3 "$tmp/client")"
		heal $wire
		had=$(grep -c "ping data" "$tmp/client")
		within has_pinged $((had + 500)) || fail "nothing comes when $wire is back: $(tail -3 "$tmp/client")"
	done
	echo "$row: $(grep -c "ping data" "$tmp/client") pings"
	kill "$client" "$server"
	wait "$client" "$server"
}

hears()
{
	on 1 "$BIN/weft" status --json | python3 -c 'import json, sys
sys.exit(not any(p["listeners"] for p in json.load(sys.stdin).get("processes", [])))'
}

# ---- figures ----

# at_second DO...: at both ends of the second wire
at_second()
{
	"$@" w2 0
	"$@" w3 1
}

# One datagram of a hundred that arrives, each by itself.
loses()
{
	on "$2" ip link set "$1" gso_max_segs 1
	on "$2" iptables -A INPUT -i "$1" -p udp -m statistic --mode random --probability 0.01 -j DROP || skip "no losses here"
}

loses_nothing() { on "$2" iptables -F INPUT; }
is_slow() { limit "$1" "$2" 20mbit; }

figures()
{
	needs ib_read_bw iptables
	for tool in ib_write_bw ib_read_bw; do
		echo "$tool: one wire $(bandwidth 1 8) MB/s"
		echo "$tool: two wires $(bandwidth 2 8) MB/s"
		at_second is_slow
		echo "$tool: two wires, one ten times slower $(bandwidth 2 8) MB/s"
		at_second limit
		at_second loses
		echo "$tool: two wires, one loses 1 % $(bandwidth 2 8) MB/s"
		at_second loses_nothing
	done
	tool=ib_write_bw
}

# latency PATHS ADDRESS COUNT: of writes of 64 KB that answer each other, from 10.ADDRESS.0.1: typical and p99.9, us
latency()
{
	local server words=(ib_write_lat -d weft1 -m 1024 -s 65536 -n "$3" -F)
	WEFT_DIR=$tmp/1 nsenter -t "$far" -n "$BIN/weft" run --profile "standard,paths=$1" -- \
		"${words[@]}" -x "$(gid_of 1 "::ffff:10.$2.0.2")" >"$tmp/server" 2>&1 &
	server=$!
	within listens 18515 || fail "no server: $(cat "$tmp/server")"
	on 0 "$BIN/weft" run --profile "standard,paths=$1" -- \
		"${words[@]}" -x "$(gid_of 0 "::ffff:10.$2.0.1")" 10.7.0.2 >"$tmp/client" 2>&1 ||
		fail "the client: $(cat "$tmp/client")"
	wait "$server" || fail "the server: $(cat "$tmp/server")"
	awk '$1 == 65536 { print int($5), int($9) }' "$tmp/client"
}

# Half of the flows on each wire (ECMP) have the tail of the slow one.
tail_of()
{
	at_second "$1"
	echo "second wire $1: both wires $(latency 2 7 1500)"
	echo "the first alone $(latency 1 7 1500), the second alone $(latency 1 8 "$2")"
}

tail_latency()
{
	needs ib_write_lat iptables
	tail_of is_slow 100
	at_second limit
	tail_of loses 1500
	at_second loses_nothing
}

two_wires
for row in "$@"; do
	$row
done
exit $failed
