#!/bin/bash
# Two hosts with two wires between them, of which one or another fails, heals, loses or is slow all the time, at random, while
# programs whose data is checked run by several paths: nothing is lost, and nothing comes twice.
# hosts_soak.sh BIN CHECKED MPI_CHECK SECONDS [SEED [PROGRAM...]]. Exit 77: no namespaces, no tc here.
# shellcheck disable=SC2317 # programs are called by their names
# shellcheck source=tests/e2e/hosts_lib.sh
. "$(dirname "$0")/hosts_lib.sh"
needs tc
checked=$1 mpi_check=$2 seconds=$3 seed=${4:-$RANDOM}
shift 3
shift $(($# > 0))
programs=("$@")
[ $# -gt 0 ] || programs=(verbs pings stream copy mpi bandwidth fio_send fio_write fio_read ucx_put ucx_tag)
row=seed-$seed
RANDOM=$seed

limit() { on "$2" tc qdisc replace dev "$1" root tbf rate "${3:-400mbit}" burst 32k limit 200k || skip "no rate limits here"; }
has_gid() { [ -n "$(gid_of "$1" "$2" 2>/dev/null)" ]; }

two_wires()
{
	local i
	wire 1024
	ip link add w2 type veth peer name w3 netns "$far" || skip "no second wire can be made here"
	for i in 0 1; do
		on $i ip link set w$((i + 2)) mtu 1500 up
		on $i ip addr replace 10.8.0.$((i + 1))/24 dev w$((i + 2))
		limit w$i $i
		limit w$((i + 2)) $i
		on $i "$BIN/weft" up >/dev/null || fail "no weftd"
		within has_gid $i ::ffff:10.8.0.$((i + 1)) || fail "the second address does not come"
	done
}

# ---- the trouble: one thing at a time, so that a path is left ----

# for_ms LEAST MOST: sleeps so long
for_ms()
{
	local ms=$(($1 + RANDOM % ($2 - $1 + 1)))
	sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
}

# A wire loses all. The first one not for long: who has just connected knows no other yet.
wire_cut()
{
	on "$2" tc qdisc replace dev "$1" root tbf rate 8bit burst 10 limit 10
	case $1 in w0 | w1) for_ms 5 150 ;; *) for_ms 5 1500 ;; esac
	limit "$1" "$2"
}

wire_flaps()
{
	local i
	for i in 1 2 3 4 5 6; do
		on "$2" tc qdisc replace dev "$1" root tbf rate 8bit burst 10 limit 10
		for_ms 1 20
		limit "$1" "$2"
		for_ms 1 20
	done
}

wire_is_slow()
{
	limit "$1" "$2" 20mbit
	for_ms 100 1000
	limit "$1" "$2"
}

# Three of a hundred frames that arrive; what was sent in one call may arrive as one.
wire_loses()
{
	on "$2" iptables -w -A INPUT -i "$1" -m statistic --mode random --probability 0.03 -j DROP 2>/dev/null || return
	for_ms 100 1000
	on "$2" iptables -w -F INPUT
}

path_fails()
{
	local path=$((RANDOM % 4)) peer=10.7.0.$((2 - $2))
	on "$2" "$BIN/weft" path $peer fail $path >/dev/null || fail "weft path fails"
	if [ $path = 0 ]; then for_ms 5 150; else for_ms 5 1500; fi
	on "$2" "$BIN/weft" path $peer heal $path >/dev/null || fail "weft path does not heal"
}

trouble()
{
	local kinds=(wire_cut wire_flaps wire_is_slow wire_loses path_fails) host kind
	RANDOM=$((seed + 1))
	while :; do
		host=$((RANDOM % 2))
		kind=${kinds[RANDOM % 5]}
		$kind w$((host + 2 * (RANDOM % 2))) $host && echo $kind >>"$tmp/trouble"
		for_ms 20 300
	done
}

# ---- the programs: each fails where a byte is wrong ----

# weft HOST COMMAND...
weft()
{
	local host=$1
	shift
	on "$host" timeout 90 "$BIN/weft" run --profile standard,paths=4 -- "$@"
}

hears()
{
	on 1 "$BIN/weft" status --json | python3 -c 'import json, sys
sys.exit(not any(p["listeners"] for p in json.load(sys.stdin).get("processes", [])))'
}

# two READY SERVER... -- CLIENT...: READY is cm, or a TCP port
two()
{
	local ready=$1 server=() pid status=0
	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	weft 1 "${server[@]}" >"$tmp/server" 2>&1 &
	pid=$!
	if [ "$ready" = cm ]; then within hears; else within listens "$ready"; fi || fail "no server: $(cat "$tmp/server")"
	weft 0 "$@" >"$tmp/client" 2>&1 || { fail "$*: $? $(tail -5 "$tmp/client")"; status=1; }
	[ $status = 0 ] || kill $pid 2>/dev/null
	wait $pid || [ $status = 1 ] || fail "${server[*]}: $(tail -5 "$tmp/server")"
	return $status
}

# Sends, writes, reads and atomics of random sizes, against a model: an atomic or a message that comes twice is seen.
verbs()
{
	local number=$RANDOM
	two 7000 "$checked" weft1 3000 $number "$(gid_of 1 ::ffff:10.7.0.2)" 7000 -- \
		"$checked" weft1 3000 $number "$(gid_of 0 ::ffff:10.7.0.1)" 7000 10.7.0.2
}

pings() { two cm rping -s -V -a 10.7.0.2 -S 8000 -C 3000 -- rping -c -V -a 10.7.0.2 -S 8000 -C 3000; }
stream() { two cm rstream -T v -S 65536 -I 200 -C 2 -- rstream -T v -s 10.7.0.2 -S 65536 -I 200 -C 2; }

copy()
{
	[ -e "$tmp/file" ] || head -c 8000000 /dev/urandom >"$tmp/file"
	rm -f "$tmp/copy"
	weft 1 rcopy >"$tmp/server" 2>&1 &
	local pid=$!
	within hears || fail "no rcopy: $(cat "$tmp/server")"
	weft 0 rcopy "$tmp/file" "10.7.0.2:$tmp/copy" >"$tmp/client" 2>&1 || fail "rcopy: $(cat "$tmp/client")"
	kill $pid 2>/dev/null
	wait $pid 2>/dev/null
	cmp -s "$tmp/file" "$tmp/copy" || fail "rcopy copies something else"
}

# UCX's tags and puts below Open MPI. mpirun reaches the other host by this in place of ssh.
mpi()
{
	command -v mpirun >/dev/null || return 0
	cat >"$tmp/reach" <<-END
	#!/bin/bash
	shift
	WEFT_DIR=$tmp/1 exec nsenter -t $far -n sh -c "\$*"
	END
	chmod +x "$tmp/reach"
	WEFT_DIR=$tmp/0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 \
		mpirun -n 2 --host 10.7.0.1,10.7.0.2 --map-by node --mca plm_rsh_agent "$tmp/reach" --mca pml ucx --mca osc ucx \
		--mca pml_ucx_devices any --mca pml_ucx_tls any -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=weft1:1 \
		"$BIN/weft" run --profile standard,paths=4 -- "$mpi_check" 3 >"$tmp/mpi" 2>&1 ||
		fail "mpirun: $(head -30 "$tmp/mpi")"
}

# Programs that check nothing are to end well.
bandwidth()
{
	two 18515 ib_write_bw -d weft1 -x "$(gid_of 1 ::ffff:10.7.0.2)" -m 1024 -D 3 -q 4 -- \
		ib_write_bw -d weft1 -x "$(gid_of 0 ::ffff:10.7.0.1)" -m 1024 -D 3 -q 4 10.7.0.2
}

# fio_two VERB ROOM CHECK...: blocks have their place and a checksum, which a receiver checks that hears of each
fio_two()
{
	local verb=$1 room=$2 common
	shift 2
	command -v fio >/dev/null || return 0
	common=(fio --ioengine=rdma --port=9000 --bs=64k --size=48m --verify_state_save=0)
	two cm "${common[@]}" --output="$tmp/fio-$verb-to" --name=receiver --rw=read --iodepth="$room" "$@" -- \
		"${common[@]}" --output="$tmp/fio-$verb-from" --name=sender --hostname=10.7.0.2 --verb="$verb" --rw=write \
		--iodepth=8 --iodepth_batch_complete=1 --do_verify=0 "$@" || return
	if grep -qE 'err= *[1-9]|verify: (bad|fail)' "$tmp/fio-$verb-to" "$tmp/fio-$verb-from"; then
		fail "fio $verb: $(cat "$tmp/fio-$verb-to" "$tmp/fio-$verb-from")"
	fi
}

fio_send() { fio_two send 128 --verify=crc32c; }
fio_write() { fio_two write 16; }
fio_read() { fio_two read 16; }

# ucx_two TEST BYTES MESSAGES
ucx_two()
{
	local argv=(env UCX_TLS=rc_v,self UCX_NET_DEVICES=weft1:1 ucx_perftest)
	command -v ucx_perftest >/dev/null || return 0
	if ucx_perftest -h | grep -q '^ *-P '; then argv+=(-P 0); fi
	argv+=(-p 13337 -t "$1" -s "$2" -n "$3" -w 10 -f)
	two 13337 "${argv[@]}" -- "${argv[@]}" 10.7.0.2
}

ucx_put() { ucx_two ucp_put_bw 65536 600 && ucx_two ucp_put_lat 64 2000; }
ucx_tag() { ucx_two tag_bw 65536 600 && ucx_two tag_lat 4096 2000; }

: >"$tmp/trouble"
export XTABLES_LOCKFILE=$tmp/xtables.lock
two_wires
trouble &
troubler=$!
end=$((SECONDS + seconds))
runs=0
while [ $SECONDS -lt $end ] && [ $failed = 0 ]; do
	for program in "${programs[@]}"; do
		[ $SECONDS -lt $end ] || break
		$program
		[ $failed = 0 ] || { echo "FAILED: $row: in $program"; break; }
		runs=$((runs + 1))
	done
done
kill $troubler
wait $troubler 2>/dev/null
echo "$row: $runs programs, $(wc -l <"$tmp/trouble") times: $(sort "$tmp/trouble" | uniq -c | tr -s ' \n' ' ')"
exit $failed
