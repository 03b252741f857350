#!/bin/bash
# Limits that are too low, of a program and of weftd: an error that names the limit and what to do, never a crash or a hang.
. "${0%/*}/lib.sh"
for program in ibv_devinfo ibv_rc_pingpong; do
	command -v $program >/dev/null || { rmdir "$HOME_DIR"; echo "skipped: no $program here"; exit 77; }
done

# limited LIMITS COMMAND...: the program alone has these limits.
limited() {
	local limits=$1
	shift
	timeout -s KILL 60 "$BIN/weft" run -- bash -c "ulimit $limits && exec \"\$@\"" bash "$@"
}
# survives COMMAND...: ends by itself, not by a signal, nor by our patience; its output goes to $out, its status to $status.
survives() {
	out=$("$@" 2>&1)
	status=$?
	[ $status -le 128 ] || [ $status -gt 192 ] || fail "'$*' ends by signal $((status - 128)): $out"
}

expect 0 weft up

# descriptors: with none left, and with any number that is too small
for n in 3 4 5 6 7 8 9 10 11; do
	survives limited "-n $n" ibv_devinfo -d weft1
	[ $status = 0 ] || [ $n -lt 5 ] || says RLIMIT_NOFILE
done
expect 0 limited "-n 16" ibv_devinfo -d weft1

# file sizes, which memory files are subject to: the kernel's answer is a deadly signal
survives limited "-f 1" ibv_rc_pingpong -d weft0
says RLIMIT_FSIZE
expect 0 limited "-f 100000" ibv_devinfo -d weft0

# address space: less is taken, until there is none; AddressSanitizer alone takes terabytes
if [ -z "${WEFT_TEST_PRELOAD-}" ]; then
	expect 0 limited "-v 200000" ibv_devinfo -d weft0
	for kib in 40000 30000 25000 20000; do
		survives limited "-v $kib" ibv_devinfo -d weft0
	done
fi

# nothing is locked in memory, so this limit does not matter
expect 0 limited "-l 0" ibv_devinfo -d weft0
expect 0 weft down

# weftd without descriptors refuses who comes, tells it why, and goes on
(ulimit -n 24 && "$BIN/weft" up) >/dev/null 2>&1 || fail "weftd does not start with 24 descriptors"
pids=()
for i in {1..24}; do
	"$BIN/weft" run -- ibv_rc_pingpong -d weft0 -p "$(free_port)" >"$HOME_DIR/out.$i" 2>&1 &
	pids+=($!)
done
refused() { grep -lqE "Too many open files" "$HOME_DIR"/out.*; }
within 20 refused || fail "nobody is told that weftd has no descriptors: $(cat "$HOME_DIR"/out.*)"
grep -q "raise RLIMIT_NOFILE" "$WEFT_DIR/weftd.log" || fail "weftd's log does not name the limit: $(cat "$WEFT_DIR/weftd.log")"
kill "${pids[@]}" 2>/dev/null
wait "${pids[@]}" 2>/dev/null
well() { weft run -- ibv_devinfo -d weft0 >/dev/null 2>&1; }
within 10 well || fail "weftd does not recover: $(weft run -- ibv_devinfo 2>&1)"
rm -f "$HOME_DIR"/out.*
expect 0 weft down --force

# weftd without room for its files
survives bash -c "ulimit -f 1; exec '$BIN/weftd'"
out="$out $(cat "$WEFT_DIR/weftd.log" 2>/dev/null)"
says "make room"
rm -f "$WEFT_DIR/weftd.log"
expect 0 weft down

finish
