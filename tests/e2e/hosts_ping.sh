#!/bin/bash
# weft ping and weft doctor --peer between two hosts, each a network namespace with a weftd of its own, and what they say of what
# is in the way. hosts_ping.sh BIN ROW...
# Exit 77: no namespaces, or no such programs here.
# shellcheck disable=SC2317 # rows are called by their names
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"

listener=

# The other host answers pings from now on.
listens()
{
	: >"$tmp/listen"
	WEFT_DIR=$tmp/1 nsenter -t "$far" -n "$BIN/weft" ping --listen >"$tmp/listen" 2>&1 &
	listener=$!
	within_life_of "$listener" grep -q "pings are answered" "$tmp/listen" ||
		{ fail "nobody listens: $(cat "$tmp/listen")"; return; }
}

ends_listening()
{
	kill -TERM "$listener"
	wait "$listener" || fail "it ends with $?: $(cat "$tmp/listen")"
}

# asks STATUS ARGUMENT...: weft at the first host; its output is in $tmp/out
asks()
{
	local want=$1 got
	shift
	on 0 timeout 60 "$BIN/weft" "$@" >"$tmp/out" 2>&1
	got=$?
	[ "$got" = "$want" ] || fail "weft $* ends with $got: $(cat "$tmp/out")"
}

says() { grep -qE "$1" "$tmp/out" || fail "no '$1' in: $(cat "$tmp/out")"; }

has_port_open() { on 1 "$BIN/weft" status --json | grep -q '"open": true'; }

# Answers, by both families and of all lengths; and the port is closed when nobody wants it any more.
answers()
{
	local end=$((SECONDS + 60))
	listens
	asks 0 ping -c 3 -s 0.01 10.7.0.2
	says "^10.7.0.2 from 10.7.0.1 \(GID [0-9]+ of weft1, w0\): 256 bytes"
	says "^256 bytes from 10.7.0.2: seq=3 time="
	says "^3 sent, 3 answered, 0% lost; .*weft [0-9.]+ there"
	if [ -e /proc/net/if_inet6 ]; then
		asks 0 ping -c 2 -s 0.01 --size 1024 fd07::2
		says "^1024 bytes from fd07::2: seq=2"
	fi
	asks 0 ping -c 2 -s 0.01 --size 1001 --json 10.7.0.2
	says '"answered": 2'
	says '"version": "[0-9.]+"'
	asks 1 ping -c 1 --size 4096 10.7.0.2
	says "the path is narrower than that"
	asks 1 ping -c 1 10.7.0.1
	says "10.7.0.1 is an address of this host"
	asks 2 ping --size 255 10.7.0.2
	asks 2 ping
	ends_listening
	while has_port_open; do
		[ "$SECONDS" -lt "$end" ] || { fail "the port stays open: $(on 1 "$BIN/weft" status)"; break; }
		sleep 0.02
	done
	listens
	kill -KILL "$(on 1 "$BIN/weft" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pid"])')"
	wait "$listener" && fail "who listens does not notice that weftd has ended"
	grep -q "weftd has ended" "$tmp/listen" || fail "who listens says: $(cat "$tmp/listen")"
}

nobody()
{
	asks 1 ping -c 1 10.7.0.2
	says "the host is there, and nobody has its UDP port 4791"
	asks 1 doctor --peer 10.7.0.2
	says "^port there +FAILED +the host is there, and nobody has"
	says "^loss +FAILED +cannot be tried"
	asks 1 doctor --peer 192.0.2.1
	says "^route +FAILED +there is no route to 192.0.2.1"
	asks 1 doctor --peer no.such.host.invalid
	says "^name +FAILED"
	asks 2 doctor --peer 10.7.0.2 ls
}

# A process that has the port; of the path what the doctor finds.
doctor()
{
	listens
	asks 0 doctor --peer 10.7.0.2
	says "^route +ok +from 10.7.0.1, which is GID [0-9]+ of weft1, by w0"
	says "^path MTU +ok +1500 bytes.* a path MTU of 1024"
	says "^port there +ok +the weftd of 10.7.0.2 answers after"
	says "^version +ok +both are weft"
	says "^long packets +ok +packets of 1024 bytes of payload pass"
	asks 0 doctor --peer 10.7.0.2 --json
	says '"healthy": true'
	ends_listening
}

# The path is narrower than both ends know: packets of that length are lost without a word.
narrow()
{
	ip link set w0 mtu 4200
	listens
	on 1 ip link set w1 mtu 4200
	command -v tc >/dev/null || skip "no tc here"
	# what is longer than 1500 bytes is dropped on the way
	tc qdisc add dev w0 root tbf rate 1gbit burst 1500 limit 100000 || skip "no queue of tbf here"
	asks 0 doctor --peer 10.7.0.2
	says "^path MTU +ok +4200 bytes.* a path MTU of 4096"
	says "^long packets +warning +packets of 1024 bytes of payload pass, and 2048 do not"
	asks 1 ping -c 1 --size 4096 10.7.0.2
	says "short packets are answered, and those of this size are lost on the way"
	says "next: weft doctor --peer"
	tc qdisc del dev w0 root
	ends_listening
}

lossy()
{
	needs iptables
	on 1 iptables -A INPUT -p udp --dport 4791 -m statistic --mode nth --every 4 --packet 0 -j DROP 2>/dev/null ||
		skip "no rules of iptables can be made here"
	listens
	asks 0 doctor --peer 10.7.0.2
	says "^loss +warning +[0-9]+ of 100 pings are lost"
	on 1 iptables -F INPUT
	ends_listening
}

# A firewall that drops, then one that rejects.
firewall()
{
	needs iptables
	on 1 iptables -A INPUT -p udp --dport 4791 -j DROP 2>/dev/null || skip "no rules of iptables can be made here"
	listens
	asks 1 doctor --peer 10.7.0.2
	says "^port there +FAILED +nothing comes back, nor does anybody refuse it"
	on 1 iptables -R INPUT 1 -p udp --dport 4791 -j REJECT --reject-with icmp-admin-prohibited
	asks 1 doctor --peer 10.7.0.2
	says "^port there +FAILED +.*firewall rejects"
	on 1 iptables -F INPUT
	asks 0 ping -c 1 10.7.0.2
	# this host's own
	iptables -A OUTPUT -p udp --dport 4791 -j DROP
	asks 1 ping -c 1 10.7.0.2
	says "this host's firewall does not let it out"
	asks 1 doctor --peer 10.7.0.2
	says "^port there +FAILED +this host's firewall does not let it out"
	iptables -F OUTPUT
	asks 0 ping -c 1 10.7.0.2
	ends_listening
}

# Another program has the port here.
taken()
{
	local holder
	has_family 6
	python3 -c 'import signal, socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 4791))
print("bound", flush=True)
signal.pause()' >"$tmp/holder" &
	holder=$!
	within_life_of "$holder" grep -qs bound "$tmp/holder" || { fail "nobody has the port"; return; }
	asks 1 doctor --peer 10.7.0.2
	says "^own port +FAILED +UDP port 4791 of this host is another's"
	says "next: process $holder \(python3\) of user"
	asks 1 ping -c 1 10.7.0.2
	says "UDP port 4791 of this host is another's"
	kill "$holder"
	wait "$holder"
}

wire 1024
for row in "$@"; do
	$row
done
exit $failed
