#!/bin/bash
# pair_command.sh BIN UNLUCKY CASE: weft pair as its user meets it. Of each case nothing is left: no program, no directory.
case=$3
for program in ib_write_bw rping python3 unshare; do
	command -v $program >/dev/null || { echo "skipped: no $program here"; exit 77; }
done
# in a network namespace of its own, as perftest's port is fixed
if [ -z "${WEFT_APART-}" ]; then
	unshare -rn true 2>/dev/null || { echo "skipped: no network namespace can be made"; exit 77; }
	WEFT_APART=1 exec unshare -rn "$0" "$@"
fi
ip link set lo up || exit 1
unlucky=$2
. "${0%/*}/lib.sh"
# of other people's programs leaks are not looked for
pair() { "$BIN/weft" pair "$@"; }
ME=$HOME_DIR/me
# Programs of the pair say where their network is, and who they are.
SAY="echo \$WEFT_DIR >$ME.dir; echo \$\$ >>$ME.pids"

children() { cat "/proc/$1/task/$1/children"; }
network() { cat "$ME.dir" 2>/dev/null; }
# Is none left of those that said who they are, and no directory?
all_gone() {
	local pid
	for pid in $(cat "$ME.pids"); do
		[ ! -e "/proc/$pid" ] || return 1
	done
	gone "$(dirname "$(network)")"
}
started() { [ "$(wc -l <"$ME.pids")" = "$1" ]; } 2>/dev/null
field() { python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)[sys.argv[1]]))' "$1"; }

client_of_perftest_finds_no_server() {
	expect 0 pair -- ib_write_bw -n 100 --- ib_write_bw -n 100 localhost
	says "server: "
	says "client 1:  65536      100"
	says "server and 1 client ended well"
}

client_of_rdma_cm_finds_no_server() {
	expect 0 pair -d weft1 -- rping -s -a 127.0.0.1 -C 3 --- rping -c -a 127.0.0.1 -C 3 -v
	says "client 1: ping data: rdma-ping-2"
	out=$(pair --json -- rping -s -a 127.0.0.1 -C 3 --- rping -c -a 127.0.0.1 -C 3 2>/dev/null | field ready)
	[ "$out" = '"rdma_cm"' ] || fail "the server is ready by $out"
}

failing_server_is_waited_for() {
	expect 3 pair -- sh -c "$SAY; sleep 1000 & echo no device; exit 3" --- true
	says "server: no device"
	says "the server exited with 3 before it was ready"
	expect 1 pair -- true --- true
	says "the server exited with 0 before it was ready"
	says "next: see what it printed; --ready or --delay"
	expect 127 pair -- nowhere-to-be-found --- true
	says "server: weft: nowhere-to-be-found cannot be run"
	expect 3 pair --delay 0 -- sh -c "sleep 0.2; exit 3" --- sleep 1000
	says "the server exited with 3"
	all_gone || fail "something is left"
}

server_that_never_listens_is_waited_for_for_ever() {
	expect 124 pair --timeout 0.5 -- sh -c "$SAY; trap : TERM; sleep 1000; sleep 1000" --- true
	says "the server was not ready within 0.5 s"
	says "--ready or --delay for a server that listens nowhere"
	all_gone || fail "something is left"
	# neither does the wait end before the time is up when there is a client that waits
	expect 124 pair --timeout 0.5 --delay 0 -- sleep 1000 --- sleep 1000
	says "--stop-server for a server that serves on"
	# and a program that prints without pause does not keep it from ending
	timeout -s KILL 60 "$BIN/weft" pair --timeout 1 --delay 0 -- yes --- sleep 1000 >/dev/null 2>&1
	[ $? = 124 ] || fail "a server that prints without pause has no timeout"
	all_gone || fail "something is left"
}

server_that_listens_nowhere_has_no_client() {
	local serve='import time; print("serving at last"); time.sleep(1000)'
	expect 0 pair --ready '^serving' --stop-server -- python3 -c "$serve" --- echo good
	says "server: serving at last"
	says "client 1: good"
	expect 0 pair --delay 0.1 --stop-server -- sleep 1000 --- true
	expect 139 pair --ready '^serving' --stop-server -- python3 -c "import os, signal
signal.signal(signal.SIGTERM, lambda *of: os.kill(os.getpid(), signal.SIGSEGV)); $serve" --- true
	out=$(pair --json --ready serving --stop-server -- python3 -c "$serve" --- true 2>/dev/null)
	[ "$(field ready <<<"$out")$(field server <<<"$out")" = '"output"null' ] || fail "JSON says $out"
}

crash_of_a_client_is_no_failure() {
	expect 139 pair -n 3 --delay 0 -- sh -c "$SAY; sleep 1000" --- \
		sh -c "$SAY; [ \$WEFT_PAIR_CLIENT != 2 ] || kill -SEGV \$\$; sleep 1000"
	says "client 2 was killed by signal 11"
	all_gone || fail "something is left"
	out=$(pair --json -n 2 --delay 0 -- sleep 1000 --- sh -c '[ $WEFT_PAIR_CLIENT = 1 ] || exit 5; sleep 1000' 2>/dev/null)
	[ "$(field status <<<"$out") $(field clients <<<"$out") $(field server <<<"$out")" = '5 [null, 5] null' ] ||
		fail "JSON says $out"
}

# Programs that stay when they get SIGTERM, one of them in a session of its own.
STAY="trap : TERM; while :; do sleep 1000; done"
stubborn() { exec "$BIN/weft" pair --delay 0 -- sh -c "$SAY; setsid sh -c '$SAY; $STAY' & $STAY" --- sh -c "$SAY; $STAY"; }

killed_pair_leaves_programs() {
	local pid signal status=0 supervisor generation
	for signal in TERM KILL; do
		: >"$ME.pids"
		stubborn &
		pid=$!
		within 20 started 3 || fail "the programs do not start"
		kill -$signal $pid
		wait $pid
		status=$?
		[ $signal = KILL ] || [ $status = 143 ] || fail "weft pair ends with $status by SIGTERM"
		within 20 all_gone || fail "SIGKILL of weft pair leaves $(cat "$ME.pids") or $(network)"
	done
	# one of the processes below it is killed
	for generation in 1 2; do
		: >"$ME.pids"
		stubborn 2>"$ME.err" &
		pid=$!
		within 20 started 3 || fail "the programs do not start"
		supervisor=$(children $pid)
		[ $generation = 1 ] || supervisor=$(children $supervisor)
		kill -9 $supervisor
		wait $pid && fail "weft pair ends well without process $generation below it"
		grep -q "has been killed" "$ME.err" || fail "weft pair says: $(cat "$ME.err")"
		all_gone || fail "a killed process $generation below weft pair leaves $(cat "$ME.pids") or $(network)"
	done
}

# A program that had children when it became weft pair, as a shell has its jobs.
jobs_of_the_shell_are_killed() {
	local job
	sh -c "sleep 1000 & echo \$! >'$ME.pids'; exec '$BIN/weft' pair --delay 0 -- true --- true" ||
		fail "weft pair ends with $?"
	job=$(cat "$ME.pids")
	[ "$(readlink "/proc/$job/exe")" -ef "$(command -v sleep)" ] || fail "a job of the shell does not outlive weft pair"
	kill -9 "$job"
}

is_swept() { pair --delay 0 -- true --- true >/dev/null 2>&1; gone "$(dirname "$(network)")"; }

network_of_a_killed_pair_stays() {
	local pid keeper supervisor
	: >"$ME.pids"
	pair --delay 0 -- sh -c "$SAY; exec sleep 1000" --- sh -c "$SAY; exec sleep 1000" &
	pid=$!
	within 20 started 2 || fail "the programs do not start"
	keeper=$(children $pid)
	supervisor=$(children $keeper)
	kill -STOP $pid $keeper
	kill -9 $supervisor $keeper $pid
	wait $pid
	within 20 is_swept || fail "the next weft pair leaves $(network)"
	within 20 all_gone || fail "programs are left: $(cat "$ME.pids")"
}

seed_finds_another_network() {
	local first again
	expect 9 pair -d weft0 --seeds 10 --delay 0 -i loss=3% --trace "$ME.trace" -- sleep 0 --- sh -c "exec '$unlucky' 8"
	says "client 1 exited with 9 (seed="
	says "were lost"
	first=$(grep -o 'seed=[0-9]*)' <<<"$out")
	[ "$first" != "seed=1)" ] || fail "the first seed fails, so nothing was searched"
	[ "$(grep -c 'were lost' <<<"$out")" = 1 ] || fail "more than one run is shown: $out"
	local lost
	lost=$(grep 'were lost' <<<"$out")
	again=$(sed -n 's/^  repeat: weft //p' <<<"$out")
	expect 0 weft replay -q "$ME.trace"
	local before
	before=$(weft replay "$ME.trace" | grep -c '\[lost\]')
	expect 9 sh -c "'$BIN/weft' $again"
	says "$first"
	says "$lost"
	expect 0 weft replay -q "$ME.trace"
	[ "$(weft replay "$ME.trace" | grep -c '\[lost\]')" = "$before" ] || fail "the same seed loses other frames"
	# as --seed says, too; and with no failure all are tried
	first=${first#seed=}
	expect 9 pair -d weft0 --seed "${first%)}" --delay 0 -i loss=3% -- sleep 0 --- "$unlucky"
	says "$lost"
	expect 0 pair --seeds 3 --seed 40 --delay 0 -i loss=10% -- true --- true
	says "no failure with the seeds 40 to 42"
	rm "$ME.trace"
}

mistakes_are_told_in_riddles() {
	expect 2 pair -- true
	says "there is no --- between a server and a client"
	expect 2 pair -- --- true
	says "there is no server to run"
	expect 2 pair -- true ---
	says "there is no client to run"
	expect 2 pair --seed 5 -- true --- true
	says "a seed chooses faults, and there are none without --impair"
	expect 2 pair --timeout soon -- true --- true
	says "--timeout soon is not a number of seconds"
	expect 2 pair --ready '(' -- true --- true
	says "no extended regular expression"
	expect 2 pair -n 0 -- true --- true
	expect 2 pair -n 65 -- true --- true
	says "--clients 65 is not a number from 0 to 64"
	expect 2 pair --impair los=5% -- true --- true
	says "weft-run(1) lists the faults"
}

"$case"
rm -f "$ME.dir" "$ME.pids" "$ME.err"
finish
