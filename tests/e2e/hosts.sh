#!/bin/bash
# Two hosts, each a network namespace with a weftd of its own, that have a wire between them: programs that nobody here wrote,
# and the messages of weft about other hosts. hosts.sh BIN ROW...: NAME-FAMILY-MTU-LOSS, as rc_pingpong-4-1024-5; cm-NAME-
# FAMILY-LOSS: over rdma_cm, of which ucx is the program WEFT_UCX_CM (ucx_cm.c); killed: a process with a connection is;
# narrow: long packets are dropped on the way; taken: the port is another's; same_host: two programs of one host go over the
# wire.
# Exit 77: no namespaces, or no such programs here.
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"

# of some rows: what is in the environment of both programs, and options of weft run
settings=()
options=()

weft()
{
	local host=$1 loss=$2 impair=()
	shift 2
	[ "$loss" = 0 ] || impair=(--impair "weft1.in.loss=$loss%,seed=7")
	on "$host" env "${settings[@]}" timeout 60 "$BIN/weft" run "${options[@]}" "${impair[@]}" \
		--stats="$tmp/stats.$host.json" -- "$@"
}

# what a program needs to know of: the row's name, its family and MTU, and the index of its GID
arguments()
{
	local program=$1 mtu=$2 gid=$3
	case $program in
	rc_pingpong | uc_pingpong | srq_pingpong | xsrq_pingpong) echo "ibv_$program -d weft1 -g $gid -m $mtu -n 300 -s 9000" ;;
	ud_pingpong) echo "ibv_ud_pingpong -d weft1 -g $gid -n 300 -s 900" ;;
	default_mtu) echo "ib_write_bw -d weft1 -x $gid -s 65536 -n 300 -F" ;;
	# datagrams that nobody takes in are lost: no more than a socket's buffer has room for
	ud_send_bw) echo "ib_send_bw -d weft1 -x $gid -c UD -s 1000 -n 120 -F" ;;
	send_bw_xrc) echo "ib_send_bw -d weft1 -x $gid -m $mtu -c XRC -s 65536 -n 300 -F" ;;
	# RC wired up over UD; without MPI, which a build that has it takes by itself
	ucx_tag)
		echo "ucx_perftest $(ucx_perftest -h 2>&1 | sed -n 's/^ *-P .*/-P 0/p') -p 18515 -t tag_lat -n 300 -w 10 -s 9000"
		;;
	event_lat) echo "ib_write_lat -d weft1 -x $gid -m $mtu -s 64 -n 200 -F" ;;
	*) echo "ib_$program -d weft1 -x $gid -m $mtu -s 65536 -n 300 -F" ;;
	esac
}

# The sum of the figures of this name that the host's program counted.
count()
{
	python3 -c 'import re, sys
print(sum(int(n) for n in re.findall(r"\"%s\": ?(\d+)" % sys.argv[2], open(sys.argv[1]).read())))' "$tmp/stats.$1.json" "$2"
}

two_programs()
{
	local program family mtu loss address=() gid=() ends=() side=(client server) i
	IFS=- read -r program family mtu loss <<<"$row"
	# shellcheck disable=SC2046 # the first word
	needs $(arguments "$program" "$mtu" 0 | cut -d' ' -f1)
	has_family "$family"
	wire "$mtu"
	for i in 0 1; do
		[ "$family" = 4 ] && address[i]=10.7.0.$((i + 1)) || address[i]=fd07::$((i + 1))
		[ "$family" = 4 ] && address[i]=::ffff:${address[i]}
		gid[i]=$(gid_of $i "${address[i]}")
		[ -n "${gid[i]}" ] || { fail "no GID of ${address[i]}"; return; }
	done
	settings=(UCX_TLS=rc_v UCX_NET_DEVICES=weft1:1)
	# shellcheck disable=SC2046 # words
	weft 1 "$loss" $(arguments "$program" "$mtu" "${gid[1]}") >"$tmp/server" 2>&1 &
	local server=$!
	within_life_of $server listens 18515 || { fail "the server: $(cat "$tmp/server")"; return; }
	# shellcheck disable=SC2046 # words
	weft 0 "$loss" $(arguments "$program" "$mtu" "${gid[0]}") 10.7.0.2 >"$tmp/client" 2>&1
	ends[0]=$?
	wait $server
	ends[1]=$?
	# who has all it wants ends at once; when its last ACK was lost, nobody sends it again
	for i in 0 1; do
		[ ${ends[i]} = 0 ] || { [ "$loss" != 0 ] && [ ${ends[1 - i]} = 0 ] &&
			grep -q 'transport retry counter exceeded' "$tmp/${side[i]}"; } ||
			fail "the ${side[i]}: $(cat "$tmp/${side[i]}")"
	done
	for i in 0 1; do
		[ "$program-$i" = ud_send_bw-0 ] || [ "$(count $i wire_received)" -gt 0 ] ||
			fail "host $i received nothing over the wire"
		# not wire_refused: so is an ACK to a peer that has ended
		for lost in wire_too_big wire_misrouted icrc_errors malformed; do
			[ "$(count $i $lost)" = 0 ] || fail "host $i: $(count $i $lost) $lost"
		done
	done
	[ "$loss" = 0 ] || [ "$(count 0 impaired_lost)" -gt 0 ] || fail "nothing was lost"
	echo "$row:$(tail -2 "$tmp/client" | tr -s ' \n' ' ')"
	echo "   sent $(count 0 wire_sent) packets in $(count 0 wire_send_calls) calls, received $(count 0 wire_received)" \
		"in $(count 0 wire_receive_calls), lost $(count 0 impaired_lost)"
}

rspreload=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so

# a server and its client over rdma_cm; ADDRESS is the server's
cm_server()
{
	case $1 in
	rping) echo "rping -s -a $2 -C 20 -V" ;;
	ucmatose) echo "ucmatose -b $2 -c 8 -C 20" ;;
	udaddy) echo "udaddy -b $2 -c 8 -C 20" ;;
	rdma_client) echo "rdma_server" ;;
	cmtime) echo "cmtime -b $2 -c 100" ;;
	storm) echo "cmtime -b $2 -c 10000" ;;
	narrow) echo "rping -s -a $2 -C 20 -V -S 20000" ;;
	rdma_xclient) echo "rdma_xserver -c x" ;;	# XRC
	rstream | riostream) echo "$1 -b $2 -T v -S 4096 -C 100" ;;
	preloaded) echo "rstream -b $2 -T s -T v -S 4096 -C 100" ;;	# a program of sockets
	ucx) echo "$WEFT_UCX_CM $2 7471" ;;
	libfabric) echo "fi_pingpong -p verbs -e msg -I 50 -S 4096 -c" ;;
	rxm) echo "fi_pingpong -p verbs;ofi_rxm -e rdm -I 50 -S 4096 -c" ;;
	*) echo "ib_$1 -R -d weft1 -F -n 300" ;;
	esac
}

cm_client()
{
	case $1 in
	rping) echo "rping -c -a $2 -C 20 -V" ;;
	ucmatose) echo "ucmatose -s $2 -c 8 -C 20" ;;
	udaddy) echo "udaddy -s $2 -c 8 -C 20" ;;
	rdma_client) echo "rdma_client -s $2" ;;
	cmtime) echo "cmtime -s $2 -c 100" ;;
	storm) echo "cmtime -s $2 -c 10000" ;;
	narrow) echo "rping -c -a $2 -C 20 -V -S 20000" ;;
	rdma_xclient) echo "rdma_xclient -s $2 -c x" ;;
	rstream | riostream) echo "$1 -s $2 -T v -S 4096 -C 100" ;;
	preloaded) echo "rstream -s $2 -T s -T v -S 4096 -C 100" ;;
	ucx) echo "$WEFT_UCX_CM $2 7471 client" ;;
	libfabric | rxm) echo "$(cm_server "$1" "$2") $2" ;;
	*) echo "ib_$1 -R -d weft1 -F -n 300 $2" ;;
	esac
}

# fi_pingpong begins to listen when a client has come to its TCP port.
cm_listens()
{
	! on 1 ss -Htln 'sport = 47592' | grep -q LISTEN || return 0
	on 1 "$BIN/weft" status --json | python3 -c 'import json, sys
sys.exit(not any(p["listeners"] for p in json.load(sys.stdin).get("processes", [])))'
}

has_no_qp()
{
	on "$1" "$BIN/weft" qp --json | python3 -c 'import json, sys
sys.exit(any(p.get("qps") for p in json.load(sys.stdin)["processes"]))'
}

# What came to QP1 of the host, as told in one line; 1: nothing for a process, or what no CM of a host sends.
qp1_is_well()
{
	on "$1" "$BIN/weft" status --json | python3 -c 'import json, sys
fates = json.load(sys.stdin)["wire"]["qp1"]
print(*(f"{n} {name}" for name, n in fates.items() if n))
strange = "no_mad", "wrong_key", "wrong_partition", "wrong_source", "no_socket"
sys.exit(not fates["passed"] or any(fates[name] for name in strange))'
}

# The server, then the client, whose status this is.
cm_pair()
{
	local program=$1 loss=$2 address=$3
	# shellcheck disable=SC2046 # words
	weft 1 "$loss" $(cm_server "$program" "$address") >"$tmp/server" 2>&1 &
	server=$!
	within_life_of $server cm_listens || { echo "no server" >"$tmp/client"; return 1; }
	# shellcheck disable=SC2046 # words
	weft 0 "$loss" $(cm_client "$program" "$address") >"$tmp/client" 2>&1
}

# perftest's server ends to listen after its first connection, and listens again: a client that is faster is rejected, as there is
# no such service (8), over any adapter.
is_too_early()
{
	[[ "$1" == *_bw || "$1" == *_lat ]] && grep -q 'RDMA_CM_EVENT_REJECTED; error: 8' "$tmp/client"
}

cm_programs()
{
	local program family loss address server i attempt
	IFS=- read -r _ program family loss <<<"$row"
	# shellcheck disable=SC2046 # the first words
	needs $(cm_server "$program" "" | cut -d' ' -f1) $(cm_client "$program" "" | cut -d' ' -f1)
	has_family "$family"
	wire 1024
	[ "$family" = 4 ] && address=10.7.0.2 || address=fd07::2
	if [ "$program" = preloaded ]; then
		[ -e "$rspreload" ] || skip "no $rspreload here"
		settings=(LD_PRELOAD="$rspreload")
	elif [ "$program" = ucx ]; then
		settings=(UCX_TLS=rc_v UCX_NET_DEVICES=weft1:1 UCX_SOCKADDR_TLS_PRIORITY=rdmacm)
	elif [ "$program" = libfabric ] || [ "$program" = rxm ]; then
		options=(--device weft1)	# else libfabric's server takes the first device, which has no address
	fi
	for attempt in 1 2 3 4; do
		cm_pair "$program" "$loss" "$address" && break
		if [ $attempt = 4 ] || ! is_too_early "$program"; then
			fail "client: $(cat "$tmp/client")"
			break
		fi
		pkill -TERM -P $server
		wait $server
	done
	if [ "$program" = storm ]; then	# all have parted; what is left would be a QP that nobody ended
		within has_no_qp 1 || fail "host 1 keeps $(on 1 "$BIN/weft" qp | head -3)"
		within is_idle 0 || fail "host 0 keeps $(on 0 "$BIN/weft" status)"
	fi
	if [ "$program" = cmtime ] || [ "$program" = storm ]; then	# before rdma-core 52 its server serves for ever
		pkill -TERM -P $server
		wait $server
	else
		wait $server || fail "the server: $(cat "$tmp/server")"
	fi
	for i in 0 1; do
		qp1_is_well $i >"$tmp/qp1" || fail "QP1 of host $i: $(cat "$tmp/qp1")"
		echo "$row: QP1 of host $i: $(cat "$tmp/qp1")"
	done
}

# The way drops long packets without a word: neither kernel knows, and rdma_cm connects with packets that pass.
narrow()
{
	local address=10.7.0.2 server
	needs tc rping
	wire 4096
	tc qdisc add dev w0 root tbf rate 1gbit burst 1500 limit 100000 || skip "no queue of tbf here"
	cm_pair narrow 0 $address || fail "client: $(cat "$tmp/client" "$tmp/server")"
	wait $server || fail "the server: $(cat "$tmp/server")"
	tc qdisc del dev w0 root
	[ "$(count 0 completer_retry_err)" = 0 ] || fail "packets were lost: $(cat "$tmp/stats.0.json")"
}

# A server with a connection whose client was killed, which it only hears from rdma_cm: of the DREQs some are lost.
killed()
{
	local server client
	needs rping
	wire 1024
	weft 1 30 rping -s -a 10.7.0.2 -C 1000000 >"$tmp/server" 2>&1 &
	server=$!
	within_life_of $server cm_listens || { fail "no server: $(cat "$tmp/server")"; return; }
	# one process: weft run becomes the program
	(export WEFT_DIR=$tmp/0; exec "$BIN/weft" run -- rping -c -v -a 10.7.0.2 -C 1000000) >"$tmp/client" 2>&1 &
	client=$!
	within_life_of $client grep -q "ping data" "$tmp/client" || fail "no client: $(cat "$tmp/client")"
	kill -KILL $client
	wait $server	# its status is an error: the client did not end as agreed
	grep -q "DISCONNECT EVENT" "$tmp/server" || fail "the server: $(cat "$tmp/server")"
	qp1_is_well 1 >"$tmp/qp1" || fail "QP1 of the server: $(cat "$tmp/qp1")"
	echo "killed: the server is told: $(grep -c . "$tmp/server") lines; QP1 of its host: $(cat "$tmp/qp1")"
}

# The program that wants another host is told who has the port, and a program that stays at home is told nothing.
taken()
{
	local holder gid server
	needs ibv_rc_pingpong
	has_family 6
	wire 1024
	python3 -c 'import signal, socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 4791))
print("bound", flush=True)
signal.pause()' >"$tmp/holder" &
	holder=$!
	within_life_of $holder grep -qs bound "$tmp/holder" || { fail "nobody has the port"; return; }
	gid=$(gid_of 0 ::ffff:10.7.0.1)
	on 0 "$BIN/weft" pair -- ibv_rc_pingpong -d weft1 -g "$gid" -n 10 --- ibv_rc_pingpong -d weft1 -g "$gid" -n 10 10.7.0.1 \
		>"$tmp/out" 2>&1 || fail "one host alone: $(cat "$tmp/out")"
	grep -q "error:" "$tmp/out" && fail "one host alone is told: $(cat "$tmp/out")"
	on 0 "$BIN/weft" doctor >"$tmp/out" 2>&1
	grep -q "^other hosts .*warning" "$tmp/out" || fail "doctor: $(grep -A1 "^other hosts" "$tmp/out")"
	weft 1 0 ibv_rc_pingpong -d weft1 -g "$(gid_of 1 ::ffff:10.7.0.2)" -n 10 >/dev/null 2>&1 &
	server=$!
	within_life_of $server listens 18515 || fail "no server"
	weft 0 0 ibv_rc_pingpong -d weft1 -g "$gid" -n 10 10.7.0.2 >"$tmp/out" 2>&1 && fail "it reaches the other host"
	grep -q "no way to other hosts: process $holder (python3) of user [0-9]* has UDP port 4791: end it" "$tmp/out" ||
		fail "the message: $(cat "$tmp/out")"
	[ "$(grep -c "no way to other hosts" "$tmp/out")" = 1 ] || fail "it is told more than once: $(cat "$tmp/out")"
	if command -v ucmatose >/dev/null; then	# by rdma_cm it learns so before it connects
		weft 0 0 ucmatose -s 10.7.0.2 >"$tmp/out" 2>&1
		grep -q "RDMA_CM_EVENT_ADDR_ERROR, error: -101" "$tmp/out" || fail "rdma_cm: $(cat "$tmp/out")"
		grep -q "no way to other hosts: process $holder " "$tmp/out" || fail "the message by rdma_cm: $(cat "$tmp/out")"
	fi
	pkill -P $server	# it waits for the client for ever
	kill $holder
	wait $server $holder
}

is_open_for_one() { on 0 "$BIN/weft" status | grep -q "UDP port 4791 is open to other hosts, for 1 processes"; }

same_host()
{
	local gid
	needs ibv_rc_pingpong ibv_ud_pingpong
	wire 1024
	gid=$(gid_of 0 ::ffff:10.7.0.1)
	on 0 "$BIN/weft" pair --path wire -- ibv_rc_pingpong -d weft1 -g "$gid" -n 50 --- \
		timeout 60 "$BIN/weft" run --stats="$tmp/stats.0.json" -- ibv_rc_pingpong -d weft1 -g "$gid" -n 50 10.7.0.1 \
		>"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
	[ "$(count 0 wire_received)" -ge 100 ] || fail "nothing went over the wire"
	# any host may send to a UD QP first
	weft 0 0 ibv_ud_pingpong -d weft1 -g "$gid" >/dev/null 2>&1 &
	local server=$!
	within_life_of $server is_open_for_one || fail "status: $(on 0 "$BIN/weft" status)"
	pkill -P $server	# it waits for a client for ever
	wait $server
}

for row in "$@"; do
	case $row in
	cm-*) cm_programs ;;
	*-*) two_programs ;;
	*) $row ;;
	esac
done
exit $failed
