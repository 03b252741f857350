#!/bin/bash
# stats.sh BIN UNLUCKY: weft run --stats says what a program counted, however the program ended.
. "${0%/*}/lib.sh"
unlucky=$2 file=$HOME_DIR/counted.json
run() { "$BIN/weft" run -d weft0 "$@"; }
counted() { python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2], j))' "$file" "$1"; }
is() { out=$(counted "$1"); [ "$out" = "$2" ] || fail "$1 is $out, not $2: $(cat "$file")"; }

expect 0 run --path packet --stats -- "$unlucky"
says "weft: counted by "
says "e2e_unlucky"
grep -q "^  rdma_sends  *[0-9]" <<<"$out" || fail "sends are not counted: $out"

# the program's status, and what several processes counted
expect 9 run --impair loss=100%,seed=1 --stats="$file" -- sh -c "'$unlucky' 3 >/dev/null; exec '$unlucky' 3"
is status 9
is 'len(processes)' 2
is '[p["is_final"] for p in processes]' '[True, True]'
is 'processes[1]["counters"]["impaired_lost"], total["impaired_lost"]' '(64, 128)'

# one that is killed
"$BIN/weft" run -d weft0 --path packet --stats="$file" -- "$unlucky" 8 wait >"$HOME_DIR/said" &
pid=$!
within 20 grep -q lost "$HOME_DIR/said" || fail "the program does not send"
kill -TERM $pid
if ! within 20 ended $pid; then
	fail "weft run --stats does not pass SIGTERM on"
	kill -9 $pid
	rm -f "$file" "$HOME_DIR/said"
	finish
fi
wait $pid
[ $? = 143 ] || fail "weft run --stats does not end as its program does"
is status 143
is '[p["is_final"] for p in processes]' '[False]'
is 'total["rdma_recvs"] > 8' True

# one that becomes another: it is asked before it gets a signal of weft run's
expect 0 run --path packet --stats="$file" -- python3 -c '
import ctypes, os, signal, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
if not verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0])):
	sys.exit("no device")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getppid(), signal.SIGUSR1)
signal.sigwait([signal.SIGUSR1])
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
os.execv(sys.argv[1], [sys.argv[1], "3"])' "$unlucky"
is '[p["is_final"] for p in processes]' '[False, True]'
is 'processes[0]["program"][:6], processes[1]["program"]' "('python', 'e2e_unlucky')"
is 'processes[0]["pid"] == processes[1]["pid"], processes[0]["counters"]["rdma_sends"]' '(True, 0)'

# one that is stopped does not keep what ends it waiting
"$BIN/weft" run -d weft0 --stats="$file" -- \
	sh -c "'$unlucky' 8 wait & echo \$! >'$HOME_DIR/pid'; exec >&-; wait" >"$HOME_DIR/said" &
pid=$!
within 20 grep -q lost "$HOME_DIR/said" || fail "the program does not send"
kill -STOP "$(cat "$HOME_DIR/pid")"
kill -TERM $pid
within 20 ended $pid || { fail "a stopped program keeps weft run --stats"; kill -9 $pid; }
wait $pid
kill -9 "$(cat "$HOME_DIR/pid")"
rm "$HOME_DIR/pid"
expect 137 run --stats -- sh -c 'kill -9 $$'
says "weft: no process opened a device"
expect 127 run --stats -- nowhere-to-be-found
expect 1 run --stats="$HOME_DIR/missing/file" -- true
says "--stats=$HOME_DIR/missing/file cannot be written"
rm "$file" "$HOME_DIR/said"
finish
