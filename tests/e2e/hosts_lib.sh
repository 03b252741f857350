# Sourced by the tests with two hosts, each a network namespace with a weftd of its own, that have a wire between them. It
# begins the test again in namespaces, and skips where none can be made. The test's first argument becomes BIN, the build's bin,
# and "$@" is the rest. row is what is tested now, failed what came of it.
# shellcheck shell=bash
set -u

if [ "${1:-}" != inside ]; then
	unshare -Urn true 2>/dev/null || { echo "SKIP: no user and network namespaces can be made here"; exit 77; }
	exec unshare -Urn "$0" inside "$@"
fi
shift
BIN=$1
shift
failed=0

fail()
{
	echo "FAILED: $row: $*"
	failed=1
}

skip()
{
	echo "SKIP: $*"
	exit 77
}

# needs PROGRAM...
needs()
{
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "no $program here"
	done
}

needs ip nsenter python3 ss
tmp=$(mktemp -d /tmp/weft-hosts.XXXXXX)
unshare -n sleep 1000 &	# the first host is this namespace, the second that of a process which stays
far=$!
third=	# of a test with three hosts

# shellcheck disable=SC2317 # by the trap
clean_up()
{
	local i pid
	for pid in $(jobs -p); do
		[ "$pid" = "$far" ] || [ "$pid" = "$third" ] || kill "$pid" 2>/dev/null
	done
	for i in 0 1 ${third:+2}; do
		on "$i" "$BIN/weft" down --force >/dev/null 2>&1
	done
	kill "$far" ${third:+"$third"} 2>/dev/null
	rm -rf "${tmp:?}"
}
trap clean_up EXIT
trap 'exit 1' TERM INT HUP

while [ "$(readlink "/proc/$far/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
	kill -0 "$far" || skip "no second network namespace can be made here"
	sleep 0.02
done
if ! { ip link set lo up && ip link add w0 type veth peer name w1 netns "$far"; }; then
	skip "no veth devices can be made here"
fi

# on HOST COMMAND...: 0 is here
on()
{
	local host=$1
	shift
	if [ "$host" = 0 ]; then
		WEFT_DIR=$tmp/0 "$@"
	elif [ "$host" = 1 ]; then
		WEFT_DIR=$tmp/1 nsenter -t "$far" -n "$@"
	else
		WEFT_DIR=$tmp/2 nsenter -t "$third" -n "$@"
	fi
}

# A third host; and a switch between all of them, in place of the wire.
three_hosts()
{
	local i
	unshare -n sleep 1000 &
	third=$!
	while [ "$(readlink "/proc/$third/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
		kill -0 "$third" || skip "no third network namespace can be made here"
		sleep 0.02
	done
	ip link del w0
	ip link add switch type bridge mcast_snooping 0 || skip "no bridge can be made here"
	ip link set switch up
	ip link add w0 type veth peer name s0
	ip link add s1 type veth peer name w1 netns "$far"
	ip link add s2 type veth peer name w2 netns "$third"
	for i in 0 1 2; do
		ip link set s$i mtu 1500 master switch up
		on $i ip link set lo up
		on $i ip link set w$i mtu 1500 up
		on $i ip addr replace 10.7.0.$((i + 1))/24 dev w$i
	done
}

# has_family 4|6: the kernel may have been started without IPv6
has_family() { [ "$1" != 6 ] || [ -e /proc/net/if_inet6 ] || skip "no IPv6 here"; }

# both ends of the wire, for packets of RoCE with so much payload
wire()
{
	local mtu=1500 i
	[ "$1" = 4096 ] && mtu=4200
	for i in 0 1; do
		on $i ip link set lo up
		on $i ip link set w$i mtu $mtu up
		on $i ip addr replace 10.7.0.$((i + 1))/24 dev w$i
		[ ! -e /proc/net/if_inet6 ] || on $i ip addr replace fd07::$((i + 1))/64 dev w$i nodad
	done
}

# the index of this address in the GID table of weft1
gid_of()
{
	on "$1" "$BIN/weft" devices --json |
		python3 -c 'import json, sys
gids = next(d["gids"] for d in json.load(sys.stdin)["devices"] if d["name"] == "weft1")
print(next(g["index"] for g in gids if g["gid"] == sys.argv[1]))' "$2"
}

# within COMMAND...: until it succeeds, for at most a minute
within()
{
	local end=$((SECONDS + 60))
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}

# listens PORT: somebody at host 1, by TCP
listens() { on 1 ss -Htln "sport = $1" | grep -q .; }

# within_life_of PID COMMAND...: until it succeeds, while the process runs
within_life_of()
{
	local pid=$1
	shift
	until "$@"; do
		kill -0 "$pid" 2>/dev/null || return 1
		sleep 0.02
	done
}

# has_joined FILE: mckey's QP is attached. weftd's page names a member before, as the join comes first.
has_joined() { grep -q "joined dgid" "$tmp/$1"; }

weftd_of() { on "$1" "$BIN/weft" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin).get("pid", ""))'; }

# Has the host's weftd nobody and no socket any more, or has it left?
is_idle()
{
	on "$1" "$BIN/weft" status --json | python3 -c 'import json, sys
s = json.load(sys.stdin)
sys.exit(s.get("running", True) and (bool(s["processes"]) or s["wire"]["sockets"] > 0 or s["wire"]["open"]))'
}

processes_of() { grep -lzx "WEFT_DIR=$tmp/$1" /proc/[0-9]*/environ 2>/dev/null; }
is_empty() { [ -z "$(processes_of "$1")" ]; }

# No process, no socket, no file of any host is left.
nothing_is_left()
{
	local i
	for i in 0 1 ${third:+2}; do
		within is_idle $i || fail "weftd of host $i keeps: $(on $i "$BIN/weft" status)"
		on $i "$BIN/weft" down >"$tmp/down" 2>&1 || fail "weft down of host $i: $(cat "$tmp/down")"
		within is_empty $i || fail "processes of host $i are left: $(processes_of $i)"
		[ ! -e "$tmp/$i" ] || fail "files of host $i are left: $(find "$tmp/$i" | head -5)"
		[ -z "$(on $i ss -Huan 'sport = 4791')" ] ||
			fail "sockets of host $i are left: $(on $i ss -Huanp 'sport = 4791' | head -2)"
	done
}
